//! Requests of the back-end, over its own socket.
use std::os::fd::OwnedFd;

use super::message::Message;
use super::payload::{Iotlb, VringArea, VringState};
use super::table::{self, Rule};
use super::whole::{read_all, write_all};
use crate::SharedFd;
use crate::violation::Violation;

/// A request of the back-end. Its descriptors are passed separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendRequest {
    /// A translation is missing, or does not permit the access.
    IotlbMsg(Iotlb),
    /// The configuration space has changed.
    ConfigChange,
    /// Sets a doorbell page for a queue, or removes it.
    VringHostNotifier(VringArea),
    /// A call, sent as a message.
    VringCall(VringState),
    /// An error of a queue, sent as a message.
    VringErr(VringState),
}

impl BackendRequest {
    /// The request's number in the header.
    pub fn id(&self) -> u32 {
        match self {
            Self::IotlbMsg(_) => 1,
            Self::ConfigChange => 2,
            Self::VringHostNotifier(_) => 3,
            Self::VringCall(_) => 4,
            Self::VringErr(_) => 5,
        }
    }

    /// The row of the message table.
    pub fn rule(&self) -> &'static Rule {
        &table::BACKEND_REQUESTS[self.id() as usize - 1]
    }

    /// Parses a request of the back-end, after the table has checked direction, payload size and number of
    /// descriptors.
    ///
    /// # Errors
    /// The id is not in the table or not offered; the message is a reply; its payload size or its number of
    /// descriptors is not what the table allows; or a field has a value that the message cannot carry.
    pub fn parse(message: &Message) -> Result<Self, Violation> {
        let (rule, payload) = table::backend_request(message.header.id)?.check_request(message)?;
        Ok(match rule.id {
            1 => Self::IotlbMsg(read_all(rule, payload)?),
            2 => Self::ConfigChange,
            3 => Self::VringHostNotifier(read_all(rule, payload)?),
            4 => Self::VringCall(read_all(rule, payload)?),
            5 => Self::VringErr(read_all(rule, payload)?),
            other => return Err(rule.violation("id", other, "a message that was offered")),
        })
    }

    /// The payload's bytes.
    pub fn payload(&self) -> Vec<u8> {
        match self {
            Self::IotlbMsg(value) => write_all(value),
            Self::ConfigChange => vec![],
            Self::VringHostNotifier(value) => write_all(value),
            Self::VringCall(value) | Self::VringErr(value) => write_all(value),
        }
    }

    /// The message with these descriptors, without a request for an acknowledgement. The session's state is not
    /// checked here; sessions do that.
    pub fn to_message(&self, fds: Vec<OwnedFd>) -> Message {
        Message::new(self.id(), self.payload(), fds.into_iter().map(SharedFd::from).collect())
    }
}
