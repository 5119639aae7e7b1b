//! Messages over Unix stream sockets, with their descriptors.
//!
//! No call blocks unless it takes a deadline, whatever the socket's own mode. An event loop polls the socket for
//! [`Connection::try_receive`] and [`Connection::flush`]; a plain thread calls [`Connection::receive`] and
//! [`Connection::send`].
mod connection;
mod listener;

pub use connection::{Connection, DescriptorFilter, UnderWay};
pub use listener::Listener;

use std::io;
use std::path::PathBuf;

use crate::violation::Violation;
use thiserror::Error;

/// Why a socket cannot continue.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The peer has closed the connection between two messages.
    #[error("the vhost-user peer closed the connection")]
    Closed,
    /// The peer has closed the connection within a message.
    #[error("the vhost-user peer closed the connection {have} bytes into a message")]
    Truncated {
        /// Received bytes of the message.
        have: usize,
    },
    /// A message has more descriptors than allowed. Those received are closed.
    #[error("the vhost-user peer passed more than 8 file descriptors with one message")]
    TooManyFds,
    /// The filter rejected a descriptor.
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
    /// An invalid header, after which the next message cannot be found.
    #[error("closing the vhost-user connection: {0}")]
    Header(#[from] Violation),
    /// The deadline has passed.
    #[error("the vhost-user peer did not {what} in time")]
    Deadline {
        /// What the peer should have done.
        what: &'static str,
    },
    /// The peer does not read its messages.
    #[error("the vhost-user peer does not read: {0} messages wait to be sent")]
    Backlog(usize),
    /// A live server listens at the path.
    #[error("{0} is in use by a running server; choose another path or stop that server")]
    InUse(PathBuf),
    /// The file at the path is no socket. It is not touched.
    #[error("{0} exists and is not a socket; choose another path")]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system answered.
        source: io::Error,
    },
}

impl SocketError {
    /// The error of adding the socket to an event loop.
    pub fn watch(source: io::Error) -> Self {
        SocketError::System { what: "watch the socket (raise ulimit -n if it is low)".into(), source }
    }
}

fn system(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> SocketError {
    move |errno| SocketError::System { what: what.into(), source: errno.into() }
}
