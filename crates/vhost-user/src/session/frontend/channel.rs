//! Requests of the back-end, as the front-end receives them.

use super::FrontendSession;
use crate::SharedFd;
use crate::bits::ProtocolFeatures;
use crate::codec::Message;
use crate::codec::backend_request::BackendRequest;
use crate::codec::payload::IotlbKind;
use crate::codec::reply::ReplyBody;
use crate::codec::table::Rule;
use crate::session::SessionError;
use crate::violation::Violation;

/// Must be used to acknowledge a request of the back-end.
#[derive(Debug)]
#[must_use = "the back-end waits for the acknowledgement"]
pub struct Acknowledge {
    id: u32,
}

impl Acknowledge {
    /// The message, which the caller sends over the back-end's socket.
    pub fn into_message(self, success: bool) -> Message {
        ReplyBody::acknowledge(success).into_message(self.id)
    }
}

/// A message from the back-end's socket.
#[derive(Debug)]
pub enum ChannelRequest {
    /// A request, to be carried out and, if asked for, acknowledged.
    Request {
        /// The request.
        request: BackendRequest,
        /// The doorbell of VRING_HOST_NOTIFIER, if the request has one.
        fd: Option<SharedFd>,
        /// To be used after the request was carried out; `None` if no acknowledgement was asked for.
        acknowledge: Option<Acknowledge>,
    },
    /// The back-end broke a rule; send this message to it.
    Rejected(Message, Violation),
}

impl FrontendSession {
    /// Takes one message from the back-end's socket. A message that breaks a rule and asks for an acknowledgement is
    /// returned as [`ChannelRequest::Rejected`].
    ///
    /// # Errors
    /// The session is closed. Or the message breaks a rule and its sender asked for no acknowledgement, which closes
    /// the session.
    pub fn receive_on_channel(&mut self, message: Message) -> Result<ChannelRequest, SessionError> {
        if self.closed {
            return Err(SessionError::Closed);
        }
        let (id, need_reply) = (message.header.id, message.header.need_reply);
        match self.channel_request(message) {
            Ok((request, fd)) => {
                let acknowledge = need_reply.then_some(Acknowledge { id });
                Ok(ChannelRequest::Request { request, fd, acknowledge })
            }
            Err(violation) if need_reply => {
                Ok(ChannelRequest::Rejected(ReplyBody::acknowledge(false).into_message(id), violation))
            }
            Err(violation) => {
                self.closed = true;
                Err(violation.into())
            }
        }
    }

    fn channel_request(&self, message: Message) -> Result<(BackendRequest, Option<SharedFd>), Violation> {
        let request = BackendRequest::parse(&message)?;
        let rule = request.rule();
        rule.check_gate(&self.agreed)?;
        if !self.agreed.protocol.contains(ProtocolFeatures::BACKEND_REQ) {
            return Err(rule.violation("protocol feature bit", 5u64, "BACKEND_REQ"));
        }
        check_content(rule, &request, message.fds.len())?;
        Ok((request, message.fds.into_iter().next()))
    }
}

fn check_content(rule: &Rule, request: &BackendRequest, fds: usize) -> Result<(), Violation> {
    match request {
        BackendRequest::IotlbMsg(entry) if entry.kind == IotlbKind::Update => {
            Err(rule.violation("type", 2u64, "miss or access failure"))
        }
        BackendRequest::IotlbMsg(entry) if entry.kind == IotlbKind::Invalidate => {
            Err(rule.violation("type", 3u64, "miss or access failure"))
        }
        BackendRequest::VringHostNotifier(area) if area.vring.has_fd != (fds == 1) => {
            Err(rule.violation("file descriptors", fds as u64, "as many as bit 8 says"))
        }
        BackendRequest::VringHostNotifier(area) if area.offset.checked_add(area.size_bytes).is_none() => {
            Err(rule.violation("offset", area.offset, "an offset that the size does not overflow"))
        }
        BackendRequest::VringCall(state) | BackendRequest::VringErr(state) if state.num != 0 => {
            Err(rule.violation("num", state.num, "0"))
        }
        _ => Ok(()),
    }
}
