//! The twelve bytes before every payload (vhost-user text, "Header").
use crate::violation::Violation;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 0b11;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// The largest payload that is read. The largest handled message is a configuration access of 12 + 256 bytes. The
/// additional room is for unknown longer messages, which are read and rejected so that the next message is found.
pub const MAX_PAYLOAD_BYTES: usize = 4096;

/// The fixed part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message's number. Requests of the front-end and of the back-end are numbered separately.
    pub id: u32,
    /// Set on every answer.
    pub reply: bool,
    /// The sender waits for an acknowledgement (REPLY_ACK).
    pub need_reply: bool,
    /// Bytes of payload that follow, at most [`MAX_PAYLOAD_BYTES`].
    pub size: u32,
}

impl Header {
    /// Length on the wire.
    pub const BYTES: usize = 12;

    /// Parses the twelve bytes of a header. Reserved flags are ignored, as other implementations ignore them.
    ///
    /// # Errors
    /// The version is not 1, or the payload exceeds [`MAX_PAYLOAD_BYTES`].
    pub fn parse(bytes: [u8; Self::BYTES]) -> Result<Self, Violation> {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (id, flags, size) = (word(0), word(4), word(8));
        if flags & VERSION_MASK != VERSION {
            return Err(Violation::new("header", "version", flags & VERSION_MASK, "1"));
        }
        if size as usize > MAX_PAYLOAD_BYTES {
            return Err(Violation::new("header", "size", size, "at most 4096 bytes of payload"));
        }
        Ok(Self { id, reply: flags & REPLY != 0, need_reply: flags & NEED_REPLY != 0, size })
    }

    /// The header's bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let flags =
            VERSION | if self.reply { REPLY } else { 0 } | if self.need_reply { NEED_REPLY } else { 0 };
        let mut bytes = [0; Self::BYTES];
        for (chunk, value) in bytes.chunks_exact_mut(4).zip([self.id, flags, self.size]) {
            chunk.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_goes_there_and_back() {
        let header = Header { id: 5, reply: true, need_reply: true, size: 4096 };
        assert_eq!(Header::parse(header.to_bytes()), Ok(header));
    }

    #[test]
    fn other_versions_and_huge_payloads_are_refused() {
        let mut bytes = Header { id: 1, reply: false, need_reply: false, size: 0 }.to_bytes();
        bytes[4..8].copy_from_slice(&2u32.to_ne_bytes());
        assert_eq!(Header::parse(bytes).unwrap_err().field, "version");
        let bytes = Header { id: 1, reply: false, need_reply: false, size: 4097 }.to_bytes();
        assert_eq!(Header::parse(bytes).unwrap_err().field, "size");
    }
}
