//! Messages in the form in which they are sent.

use std::fmt;

use zeroize::Zeroize;

use super::header::Header;
use crate::SharedFd;

/// The most file descriptors that one message may carry: one for each of the eight regions of
/// SET_MEM_TABLE (vhost-user text, "Memory regions description").
pub const MAX_FDS: usize = 8;

/// One message as it is sent: header, payload, and its descriptors.
pub struct Message {
    /// The fixed part.
    pub header: Header,
    /// The payload, not interpreted yet, of the length in the header.
    pub payload: Vec<u8>,
    /// The descriptors. Each descriptor is closed with its last clone.
    pub fds: Vec<SharedFd>,
}

/// Payloads may hold keys: their bytes are not printed.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("header", &self.header)
            .field("payload_bytes", &self.payload.len())
            .field("fds", &self.fds)
            .finish()
    }
}

impl Message {
    /// Overwrites the payload, which held keys.
    pub(crate) fn wipe(&mut self) {
        self.payload.zeroize();
    }

    pub(crate) fn new(id: u32, payload: Vec<u8>, fds: Vec<SharedFd>) -> Self {
        // Payloads are built here from bounded types; the cast cannot lose anything.
        let size = payload.len() as u32;
        Self { header: Header { id, reply: false, need_reply: false, size }, payload, fds }
    }

    pub(crate) fn reply_to(id: u32, payload: Vec<u8>, fds: Vec<SharedFd>) -> Self {
        let mut message = Self::new(id, payload, fds);
        message.header.reply = true;
        message
    }

    /// The bytes of header and payload, as they are sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.extend_from_slice(&self.payload);
        bytes
    }
}
