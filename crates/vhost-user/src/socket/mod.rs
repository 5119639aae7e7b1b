//! Messages over Unix stream sockets, with the descriptors that travel beside them.
//!
//! Nothing here ever blocks unless a call takes a deadline, whatever the socket's own mode is: an event
//! loop polls the socket for [`Connection::try_receive`] and [`Connection::flush`], a plain thread calls
//! [`Connection::receive`] and [`Connection::send`].
mod connection;
mod listener;

pub use connection::{Connection, DescriptorFilter, UnderWay};
pub use listener::Listener;

use std::io;
use std::path::PathBuf;

use crate::violation::Violation;
use thiserror::Error;

/// Why a socket cannot go on.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The peer has closed the connection between two messages.
    #[error("the vhost-user peer closed the connection")]
    Closed,
    /// The peer has closed the connection within a message.
    #[error("the vhost-user peer closed the connection {have} bytes into a message")]
    Truncated {
        /// Bytes of the message that came.
        have: usize,
    },
    /// More descriptors than any message may carry; those that came are closed.
    #[error("the vhost-user peer passed more than 8 file descriptors with one message")]
    TooManyFds,
    /// A descriptor that is not taken.
    #[error(
        "the vhost-user peer passed a file descriptor that may take long to close ({0}); pass eventfds, and files in \
         memory or on a local file system"
    )]
    FdRefused(String),
    /// The kernel had to drop descriptors: too many came, or this process may not open more.
    #[error(
        "file descriptors of a vhost-user message were lost; raise the open-files limit (ulimit -n) if it is low"
    )]
    FdsLost,
    /// A header that cannot be read on from.
    #[error("closing the vhost-user connection: {0}")]
    Header(#[from] Violation),
    /// Time is up.
    #[error("the vhost-user peer did not {what} in time")]
    Deadline {
        /// What the peer was to do.
        what: &'static str,
    },
    /// The peer does not read what is sent.
    #[error("the vhost-user peer does not read: {0} messages wait to be sent")]
    Backlog(usize),
    /// A live server owns the path.
    #[error("{0} is in use by a running server; choose another path or stop that server")]
    InUse(PathBuf),
    /// What lies at the path is no socket, and is left alone.
    #[error("{0} exists and is not a socket; choose another path")]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SocketError {
    /// The socket could not be added to what an event loop waits for.
    pub fn watch(source: io::Error) -> Self {
        SocketError::System { what: "watch the socket (raise ulimit -n if it is low)".into(), source }
    }
}

fn system(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> SocketError {
    move |errno| SocketError::System { what: what.into(), source: errno.into() }
}
