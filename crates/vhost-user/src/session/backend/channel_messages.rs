//! The back-end's own requests, and their acknowledgements.
use std::os::fd::OwnedFd;

use super::BackendSession;
use super::channel::ChannelReply;
use crate::bits::ProtocolFeatures;
use crate::codec::backend_request::BackendRequest;
use crate::codec::table::Rule;
use crate::codec::{Message, reply};
use crate::session::SessionError;
use crate::violation::Violation;

/// The most requests that may wait for their acknowledgement.
const MAX_WAITING: usize = 256;

impl BackendSession {
    /// Makes the message of this request to the front-end. The caller sends it over the back-end's socket. With
    /// REPLY_ACK the front-end acknowledges each request, and [`Self::receive_on_channel`] takes the acknowledgement.
    ///
    /// # Errors
    /// The session is closed, or the front-end has set no socket for requests (SET_BACKEND_REQ_FD). The features
    /// that the request or its descriptors need were not negotiated, or the number of descriptors is wrong. Or 256
    /// requests wait for their acknowledgement.
    pub fn request(&mut self, request: BackendRequest, fds: Vec<OwnedFd>) -> Result<Message, SessionError> {
        let rule = request.rule();
        if self.closed {
            return Err(SessionError::Closed);
        }
        self.check_channel(rule, &request, fds.len())?;
        let mut message = request.to_message(fds);
        if self.agreed.protocol.contains(ProtocolFeatures::REPLY_ACK) {
            if self.channel.waiting.len() >= MAX_WAITING {
                return Err(rule
                    .violation("waiting requests", MAX_WAITING as u64, "acknowledgements of earlier ones")
                    .into());
            }
            message.header.need_reply = true;
            self.channel.waiting.push_back(rule);
        }
        Ok(message)
    }

    /// Requests that the front-end has not acknowledged yet, by their numbers.
    pub fn unacknowledged(&self) -> impl Iterator<Item = u32> {
        self.channel.waiting.iter().map(|rule| rule.id)
    }

    /// Expects acknowledgements of requests that another process made over the channel.
    pub fn await_acknowledgements(&mut self, ids: &[u32]) {
        let rules = ids.iter().filter_map(|id| crate::codec::table::backend_request(*id).ok());
        self.channel.waiting = rules.take(MAX_WAITING).collect();
    }

    fn check_channel(&self, rule: &Rule, request: &BackendRequest, fds: usize) -> Result<(), Violation> {
        rule.check_gate(&self.agreed)?;
        if !self.channel.open {
            return Err(rule.violation("socket", 0u64, "SET_BACKEND_REQ_FD before it"));
        }
        if !rule.fds.contains(&fds) {
            return Err(rule.violation("file descriptors", fds as u64, "the number of this message"));
        }
        if let BackendRequest::VringHostNotifier(area) = request
            && area.vring.has_fd != (fds == 1)
        {
            return Err(rule.violation("file descriptors", fds as u64, "as many as bit 8 says"));
        }
        if fds > 0 && !self.agreed.protocol.contains(ProtocolFeatures::BACKEND_SEND_FD) {
            return Err(rule.violation("file descriptors", fds as u64, "none without BACKEND_SEND_FD"));
        }
        if matches!(request, BackendRequest::VringCall(_) | BackendRequest::VringErr(_)) && !self.in_band() {
            return Err(rule.violation("protocol feature bit", 14u64, "INBAND_NOTIFICATIONS"));
        }
        Ok(())
    }

    /// Takes an acknowledgement that came over the back-end's socket.
    ///
    /// # Errors
    /// The session is closed, no request waits for an acknowledgement, or the message is not the reply that the
    /// oldest request expects. The last two causes close the session.
    pub fn receive_on_channel(&mut self, message: Message) -> Result<ChannelReply, SessionError> {
        if self.closed {
            return Err(SessionError::Closed);
        }
        self.acknowledged(&message).map_err(|violation| {
            self.closed = true;
            violation.into()
        })
    }

    fn acknowledged(&mut self, message: &Message) -> Result<ChannelReply, Violation> {
        let rule = self.channel.waiting.pop_front().ok_or_else(|| {
            Violation::new(
                "reply on the back-end's socket",
                "id",
                message.header.id,
                "no reply, for none is due",
            )
        })?;
        reply::check(rule, message, 0..=0)?;
        let code: u64 = reply::read(rule, message)?;
        Ok(ChannelReply { request: rule.name, success: code == 0 })
    }
}
