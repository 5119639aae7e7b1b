//! The sockets of connections with controllers, and with programs that read their messages. No function here blocks.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use controllers::ConnectionId;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// The other end of a connection.
pub enum Peer {
    /// A controller: its connection among those of the bridge.
    Controller(ConnectionId),
    /// A program that looks at the messages of controllers, and the bytes that wait for it.
    Snooper(Vec<u8>),
}

/// A connection at a socket of a bridge.
pub struct Connection {
    socket: OwnedFd,
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
    pub fn new(socket: OwnedFd, bridge: String, target: Option<String>, peer: Peer) -> Self {
        Connection { socket, bridge, target, peer, flags: EventFlags::IN }
    }

    /// Reads once. Returns 0 if nothing has come.
    ///
    /// # Errors
    /// The controller has closed the connection, or the socket failed.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match recv(&self.socket, buffer, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, count)) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends bytes as far as the socket has room, and removes what was sent.
    ///
    /// # Errors
    /// The controller has closed the connection, or the socket failed.
    pub fn write(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut sent = 0;
        let result = loop {
            if sent == bytes.len() {
                break Ok(());
            }
            match send(&self.socket, &bytes[sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => break Err(error.into()),
            }
        };
        bytes.drain(..sent);
        result
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
