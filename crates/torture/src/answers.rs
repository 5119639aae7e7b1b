//! Counts the answers of a back-end, received in parts of any size.

use crate::message::HEADER_BYTES;

/// The number of complete answers, and the position in the next one.
#[derive(Debug, Default)]
pub struct Answers {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Payload bytes that are still to come.
    payload_bytes: usize,
    /// The number of complete answers.
    pub whole: u64,
}

impl Answers {
    /// Processes received bytes.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.payload_bytes > 0 {
                let part = self.payload_bytes.min(bytes.len());
                self.payload_bytes -= part;
                bytes = &bytes[part..];
                self.whole += u64::from(self.payload_bytes == 0);
                continue;
            }
            let part = (HEADER_BYTES - self.header_bytes).min(bytes.len());
            self.header[self.header_bytes..][..part].copy_from_slice(&bytes[..part]);
            self.header_bytes += part;
            bytes = &bytes[part..];
            if self.header_bytes == HEADER_BYTES {
                let [.., a, b, c, d] = self.header;
                self.header_bytes = 0;
                self.payload_bytes = u32::from_ne_bytes([a, b, c, d]) as usize;
                self.whole += u64::from(self.payload_bytes == 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{VERSION, message, words};

    #[test]
    fn answers_are_counted_in_whatever_parts_they_come() {
        let stream =
            [message(1, VERSION, &words(&[7])), message(2, VERSION, &[]), message(3, VERSION, &[1; 300])];
        let stream = stream.concat();
        for part in 1..stream.len() {
            let mut answers = Answers::default();
            stream.chunks(part).for_each(|bytes| answers.take(bytes));
            assert_eq!(answers.whole, 3, "in parts of {part}");
            answers.take(&stream[..stream.len() - 1]);
            assert_eq!(answers.whole, 5, "the last is not whole");
        }
    }
}
