//! The socket of SET_BACKEND_REQ_FD, over which the back-end makes requests of its own.
use std::collections::VecDeque;

use crate::codec::table::Rule;

/// Whether the channel is there, and what waits for an acknowledgement on it.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) open: bool,
    pub(super) waiting: VecDeque<&'static Rule>,
}

impl Channel {
    /// A new socket: nothing that was asked over an older one will be answered.
    pub(super) fn open(&mut self) {
        *self = Self { open: true, waiting: VecDeque::new() };
    }
}

/// The front-end's acknowledgement of a request of the back-end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelReply {
    /// The request's name.
    pub request: &'static str,
    /// Whether the front-end did it.
    pub success: bool,
}
