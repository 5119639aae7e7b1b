//! The front-end's end, which owns the driver and the memory.
//!
//! [`FrontendSession::request`] turns a request into the message to send, and remembers the expected answer.
//! [`FrontendSession::receive`] reads the answer. Requests may be sent without waiting; answers come in the same
//! order. Requests of the back-end come over a separate socket. They are given to
//! [`FrontendSession::receive_on_channel`].
mod channel;
mod reply;
#[cfg(test)]
mod tests;

pub use channel::{Acknowledge, ChannelRequest};
pub use reply::Answer;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use crate::bits::ProtocolFeatures;
use crate::codec::Message;
use crate::codec::frontend_request::FrontendRequest as Request;
use crate::codec::payload::MemoryTable;
use crate::codec::table::{Agreed, Reply, Rule};
use crate::session::SessionError;
use crate::session::postcopy::Postcopy;
use crate::violation::Violation;
use reply::Expect;
use virtio::Features;

/// The most requests that may wait for their answers.
const MAX_WAITING: usize = 1024;

#[derive(Debug)]
struct Waiting {
    rule: &'static Rule,
    expect: Expect,
}

/// One connection's state at the front-end.
#[derive(Debug, Default)]
pub struct FrontendSession {
    agreed: Agreed,
    owner: bool,
    postcopy: Postcopy,
    waiting: VecDeque<Waiting>,
    closed: bool,
}

impl FrontendSession {
    /// A new session, in which nothing is known about the back-end.
    pub fn new() -> Self {
        Self::default()
    }

    /// The features offered and agreed on so far.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Whether answers are outstanding.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Makes the message to send for a request. With REPLY_ACK every request is acknowledged, so that each has an
    /// answer.
    ///
    /// # Errors
    /// The session is closed. The request needs a feature that was not offered or negotiated, or a state that was not
    /// reached. Its content or number of descriptors is wrong. Or too many requests wait for their answers. The
    /// session is unchanged.
    pub fn request(&mut self, request: Request, fds: Vec<OwnedFd>) -> Result<Message, SessionError> {
        if self.closed {
            return Err(SessionError::Closed);
        }
        let rule = request.rule();
        self.check(rule, &request, &fds)?;
        let expect = self.expect(rule, &request);
        if expect.is_some() && self.waiting.len() >= MAX_WAITING {
            return Err(rule
                .violation("waiting requests", MAX_WAITING as u64, "answers to earlier ones")
                .into());
        }
        let mut message = request.to_message(fds);
        message.header.need_reply = matches!(expect, Some(Expect::Acknowledgement));
        if let Some(expect) = expect {
            self.waiting.push_back(Waiting { rule, expect });
        }
        self.sent(&request);
        Ok(message)
    }

    fn check(&self, rule: &Rule, request: &Request, fds: &[OwnedFd]) -> Result<(), Violation> {
        rule.check_gate(&self.agreed)?;
        if rule.needs_owner() && !self.owner {
            return Err(rule.violation("owner", 0u64, "SET_OWNER before memory and queues"));
        }
        let wanted = match request {
            Request::SetMemTable(table) => table.regions.len(),
            Request::SetVringKick(vring) | Request::SetVringCall(vring) | Request::SetVringErr(vring) => {
                usize::from(vring.has_fd)
            }
            Request::AddMemReg(_) => 1,
            Request::AckMemRegs | Request::RemMemReg(_) => 0,
            _ => *rule.fds.end(),
        };
        if fds.len() != wanted {
            return Err(rule.violation("file descriptors", fds.len() as u64, "the number of this message"));
        }
        match request {
            Request::SetFeatures(features) => {
                let surplus = features.difference(self.agreed.offered);
                if !surplus.is_empty() {
                    return Err(rule.violation(
                        "features",
                        surplus.bits(),
                        "features that GET_FEATURES gave",
                    ));
                }
            }
            Request::SetProtocolFeatures(features) => {
                let known = self.agreed.protocol_offered.intersection(ProtocolFeatures::HANDLED);
                let surplus = features.difference(known);
                if !surplus.is_empty() {
                    return Err(rule.violation("protocol features", surplus.bits(), "features of both ends"));
                }
                rule.check_needs(*features)?;
            }
            Request::SetMemTable(MemoryTable { regions }) if regions.len() > 8 => {
                return Err(rule.violation("number of regions", regions.len() as u64, "at most 8"));
            }
            Request::GetConfig(access) | Request::SetConfig(access) if access.bytes.len() > 256 => {
                return Err(rule.violation("size", access.bytes.len() as u64, "at most 256"));
            }
            _ => {}
        }
        Ok(())
    }

    fn expect(&self, rule: &Rule, request: &Request) -> Option<Expect> {
        let listening = self.postcopy == Postcopy::Listening;
        match request {
            Request::GetFeatures => Some(Expect::Features),
            Request::GetProtocolFeatures => Some(Expect::ProtocolFeatures),
            Request::GetQueueNum | Request::GetMaxMemSlots | Request::GetStatus => Some(Expect::Number),
            Request::GetVringBase(state) => Some(Expect::VringBase(state.index)),
            Request::GetConfig(access) => Some(Expect::Config(access.clone())),
            Request::CreateCryptoSession(create) => Some(Expect::CryptoSession(create.form)),
            Request::GetInflightFd(inflight) => Some(Expect::Inflight(*inflight)),
            Request::PostcopyAdvise => Some(Expect::Userfault),
            Request::SetDeviceStateFd(_) => Some(Expect::StateChannel),
            Request::SetLogBase(_) => Some(Expect::Log),
            Request::AckMemRegs => None,
            Request::SetMemTable(table) if listening && table.regions.is_empty() => None,
            Request::SetMemTable(table) if listening => Some(Expect::MemoryTable(table.clone())),
            Request::AddMemReg(region) if listening => Some(Expect::Region(region.0)),
            _ if rule.reply == Reply::Acknowledgement => Some(Expect::Acknowledgement),
            _ => {
                let acknowledged = self.agreed.protocol.contains(ProtocolFeatures::REPLY_ACK);
                acknowledged.then_some(Expect::Acknowledgement)
            }
        }
    }

    fn sent(&mut self, request: &Request) {
        match request {
            Request::SetOwner => self.owner = true,
            Request::SetFeatures(features) => self.agreed.features = *features,
            Request::SetProtocolFeatures(features) => self.agreed.protocol = *features,
            Request::ResetDevice => self.agreed.features = Features::empty(),
            Request::PostcopyAdvise => self.postcopy = Postcopy::Advised,
            Request::PostcopyListen if self.postcopy == Postcopy::Advised => {
                self.postcopy = Postcopy::Listening;
            }
            Request::PostcopyEnd => self.postcopy = Postcopy::Off,
            _ => {}
        }
    }

    /// Takes one answer of the back-end.
    ///
    /// # Errors
    /// The session is closed, no request waits for an answer, or the answer does not fit the oldest request. The
    /// last two causes close the session.
    pub fn receive(&mut self, message: Message) -> Result<Answer, SessionError> {
        if self.closed {
            return Err(SessionError::Closed);
        }
        self.answered(message).map_err(|violation| {
            self.closed = true;
            violation.into()
        })
    }

    fn answered(&mut self, message: Message) -> Result<Answer, Violation> {
        let waiting = self
            .waiting
            .pop_front()
            .ok_or_else(|| Violation::new("reply", "id", message.header.id, "no reply, for none is due"))?;
        let answer = reply::read(waiting.rule, waiting.expect, message, self.agreed.features)?;
        match &answer {
            Answer::Features(features) => self.agreed.offered = *features,
            Answer::ProtocolFeatures(features) => self.agreed.protocol_offered = *features,
            _ => {}
        }
        Ok(answer)
    }
}
