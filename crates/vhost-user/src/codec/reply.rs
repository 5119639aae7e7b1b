//! Replies.

use super::bytes::Wire;
use super::crypto::CryptoSessionReply;
use super::message::Message;
use super::payload::{ConfigAccess, Inflight, LogArea, MemoryRegion, MemoryTable, SingleRegion, VringState};
use super::whole::{read_all, write_all};
use crate::SharedFd;

/// A reply to a request, with the descriptors that it passes.
#[derive(Debug)]
pub enum ReplyBody {
    /// A number: features, counts, status, or an acknowledgement (0 is success).
    Number(u64),
    /// A number and a descriptor.
    NumberWithFd(u64, SharedFd),
    /// The content of SET_LOG_BASE, repeated.
    Log(LogArea),
    /// A queue's base.
    VringState(VringState),
    /// Configuration bytes; `None` is the empty payload that reports an error.
    Config(Option<ConfigAccess>),
    /// A session of a crypto device.
    CryptoSession(CryptoSessionReply),
    /// The in-flight buffer.
    Inflight(Inflight, SharedFd),
    /// An empty payload, with a descriptor if there is one.
    Descriptor(Option<SharedFd>),
    /// SET_MEM_TABLE in postcopy: the regions with the back-end's addresses.
    MemoryTable(MemoryTable),
    /// ADD_MEM_REG in postcopy: the region with the back-end's address.
    SingleRegion(MemoryRegion),
}

impl ReplyBody {
    /// The acknowledgement that REPLY_ACK asks for.
    pub fn acknowledge(success: bool) -> Self {
        Self::Number(u64::from(!success))
    }

    /// The complete reply to the request with this number.
    pub fn into_message(self, id: u32) -> Message {
        let (payload, fds) = match self {
            Self::Number(number) => (write_all(&number), vec![]),
            Self::NumberWithFd(number, fd) => (write_all(&number), vec![fd]),
            Self::Log(area) => (write_all(&area), vec![]),
            Self::VringState(state) => (write_all(&state), vec![]),
            Self::Config(config) => (config.as_ref().map(write_all).unwrap_or_default(), vec![]),
            Self::CryptoSession(session) => (write_all(&session), vec![]),
            Self::Inflight(inflight, fd) => (write_all(&inflight), vec![fd]),
            Self::Descriptor(fd) => (vec![], fd.into_iter().collect()),
            Self::MemoryTable(table) => (write_all(&table), vec![]),
            Self::SingleRegion(region) => (write_all(&SingleRegion(region)), vec![]),
        };
        Message::reply_to(id, payload, fds)
    }
}

/// Reads the payload of a reply to `request`.
pub(crate) fn read<T: Wire>(
    rule: &'static super::table::Rule,
    message: &Message,
) -> Result<T, crate::Violation> {
    read_all(rule, &message.payload)
}

/// Checks that a message is the reply to this request, with the right number of descriptors.
pub(crate) fn check(
    rule: &'static super::table::Rule,
    message: &Message,
    fds: std::ops::RangeInclusive<usize>,
) -> Result<(), crate::Violation> {
    if message.header.id != rule.id {
        return Err(rule.violation("reply's id", message.header.id, "the id of the request"));
    }
    if !message.header.reply {
        return Err(rule.violation("reply flag", 0u64, "a reply"));
    }
    if message.payload.len() != message.header.size as usize {
        return Err(rule.violation("payload size", message.payload.len() as u64, "the header's size"));
    }
    if !fds.contains(&message.fds.len()) {
        return Err(rule.violation("file descriptors", message.fds.len() as u64, "the number of this reply"));
    }
    Ok(())
}
