//! The socket of SET_BACKEND_REQ_FD, over which the back-end makes requests of its own.
use std::collections::VecDeque;

use crate::codec::table::Rule;

/// Whether the channel exists, and which of its requests wait for an acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) open: bool,
    pub(super) waiting: VecDeque<&'static Rule>,
}

impl Channel {
    /// Opens the channel on a new socket. Requests over an older socket will not be answered.
    pub(super) fn open(&mut self) {
        *self = Self { open: true, waiting: VecDeque::new() };
    }
}

/// The front-end's acknowledgement of a request of the back-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelReply {
    /// The request's name.
    pub request: &'static str,
    /// Whether the front-end carried out the request.
    pub success: bool,
}
