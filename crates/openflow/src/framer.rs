//! Cuts a stream of bytes into messages by the length in their headers (OpenFlow 1.5 §7.1.1).

use crate::Failure;

/// The size of a header in bytes.
pub const HEADER_BYTES: usize = 8;

/// Cuts a stream into messages; keeps the first bytes of a message that is not complete. A message has at most 64
/// KiB, because its length has 16 bits.
#[derive(Debug, Default)]
pub struct Framer {
    message: Vec<u8>,
}

impl Framer {
    /// A framer at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes up to the end of a message, and returns the message. Returns `None` if all bytes were taken before a
    /// message was complete.
    ///
    /// # Errors
    /// The length in a header is less than the size of the header. The stream cannot be read further.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            let wanted = match self.message[..] {
                [_, _, high, low, ..] if self.message.len() >= HEADER_BYTES => {
                    usize::from(u16::from_be_bytes([high, low]))
                }
                _ => HEADER_BYTES,
            };
            if wanted < HEADER_BYTES {
                return Err(Failure::BadLength);
            }
            let (first, rest) = bytes.split_at((wanted - self.message.len()).min(bytes.len()));
            self.message.extend_from_slice(first);
            *bytes = rest;
            if self.message.len() < wanted {
                return Ok(None);
            }
            if wanted > HEADER_BYTES || self.message[2..4] == [0, HEADER_BYTES as u8] {
                return Ok(Some(std::mem::take(&mut self.message)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_by_their_length_however_the_stream_is_split() {
        let stream = [6, 0, 0, 8, 0, 0, 0, 1, 6, 2, 0, 10, 0, 0, 0, 2, 0xaa, 0xbb, 6, 0, 0, 8];
        for part in 1..=stream.len() {
            let mut framer = Framer::new();
            let mut messages = Vec::new();
            for mut bytes in stream.chunks(part) {
                while let Some(message) = framer.next(&mut bytes).unwrap() {
                    messages.push(message);
                }
            }
            assert_eq!(messages, [stream[..8].to_vec(), stream[8..18].to_vec()], "parts of {part} bytes");
        }
    }

    #[test]
    fn a_length_below_that_of_the_header_ends_the_stream() {
        for length in 0..8 {
            let mut framer = Framer::new();
            let stream = [6, 0, 0, length, 0, 0, 0, 1, 2, 3];
            assert_eq!(framer.next(&mut &stream[..]), Err(Failure::BadLength));
        }
    }
}
