//! The unsent bytes of a connection: messages, errors, and replies in parts.

use crate::switch::Answer;
use openflow::{Codec, ErrorMessage, Failure, Message, Request};

/// The most bytes of a message: its length has 16 bits.
const MAX_BYTES: usize = u16::MAX as usize;
/// The offset of the flags in a multipart reply, and the flag that more parts follow.
const FLAGS: usize = 10;
const MORE: u16 = 1;

/// The most bytes of copies that wait. Further messages are not copied.
const COPIED_BYTES: usize = 1 << 20;

/// Messages as bytes, in the agreed version.
#[derive(Debug)]
pub(crate) struct Output {
    pub codec: Codec,
    pub bytes: Vec<u8>,
    /// The most bytes that wait.
    pub most_bytes: usize,
    /// Whether a message found no room: the controller does not read, and the connection ends.
    pub is_full: bool,
    /// Copies of the messages in both directions, if a program reads them.
    pub copies: Option<Vec<u8>>,
}

impl Output {
    /// Adds a message. A message that the version does not have is left out, and one that finds no room.
    pub fn send(&mut self, transaction: u32, message: &Message) {
        if !self.is_full
            && let Ok(bytes) = self.codec.encode(transaction, message)
        {
            self.is_full = self.bytes.len() + bytes.len() > self.most_bytes;
            if self.is_full {
                return;
            }
            self.copy(&bytes);
            self.bytes.extend(bytes);
        }
    }

    /// Copies a whole message, if a program reads the copies.
    pub fn copy(&mut self, message: &[u8]) {
        if let Some(copies) = &mut self.copies
            && copies.len() + message.len() <= COPIED_BYTES
        {
            copies.extend_from_slice(message);
        }
    }

    /// Adds an error that refuses a request.
    pub fn refuse(&mut self, failure: Failure, transaction: u32, request: &[u8]) {
        let error = ErrorMessage::new(failure, self.codec.version, request);
        self.send(transaction, &Message::Error(error));
    }
}

/// A multipart reply that is not complete yet.
pub(crate) struct Dump {
    /// The bytes before the elements.
    head: Vec<u8>,
    part: Vec<u8>,
    answer: Answer,
}

impl Dump {
    pub fn new(request: &Request, transaction: u32, answer: Answer, codec: Codec) -> Self {
        let head = codec.reply_head(transaction, request);
        Self { part: head.clone(), head, answer }
    }

    /// Adds parts until there are enough bytes to send. Returns true after the last part. An element that the version
    /// does not have, or that is too long for a message, is left out.
    pub fn continue_to(&mut self, output: &mut Output, enough_bytes: usize) -> bool {
        while output.bytes.len() < enough_bytes {
            let Some(reply) = self.answer.next() else {
                self.finish(output, 0);
                return true;
            };
            let Ok(elements) = output.codec.reply_elements(&reply) else { continue };
            if self.part.len() + elements.len() > MAX_BYTES && self.part.len() > self.head.len() {
                self.finish(output, MORE);
            }
            if self.part.len() + elements.len() <= MAX_BYTES {
                self.part.extend(elements);
            }
        }
        false
    }

    /// Ends a part and begins the next one.
    fn finish(&mut self, output: &mut Output, flags: u16) {
        let length = self.part.len() as u16; // at most MAX_BYTES
        self.part[2..4].copy_from_slice(&length.to_be_bytes());
        self.part[FLAGS..FLAGS + 2].copy_from_slice(&flags.to_be_bytes());
        output.copy(&self.part);
        output.bytes.append(&mut self.part);
        self.part.clone_from(&self.head);
    }
}
