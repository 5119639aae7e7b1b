//! The connections with controllers, and with programs that read their messages.
use std::os::fd::{AsFd, BorrowedFd};

use controllers::ConnectionId;
use rustix::event::epoll::EventFlags;

use super::link::Link;

/// The other end of a connection.
pub enum Peer {
    /// A controller: its connection among those of the bridge.
    Controller(ConnectionId),
    /// A program that looks at the messages of controllers, and the bytes that wait for it.
    Snooper(Vec<u8>),
}

/// A connection at a socket of a bridge.
pub struct Connection {
    /// The socket.
    pub link: Link,
    /// The bridge's name.
    pub bridge: String,
    /// The target in the table Controller; `None` at the bridge's own sockets.
    pub target: Option<String>,
    /// The other end.
    pub peer: Peer,
    /// The events that are waited for.
    pub flags: EventFlags,
}

impl Connection {
    /// A connection that was made.
    pub fn new(link: Link, bridge: String, target: Option<String>, peer: Peer) -> Self {
        Connection { link, bridge, target, peer, flags: EventFlags::IN }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}
