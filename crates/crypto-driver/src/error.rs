//! Why a device cannot be used.
use std::io;

use memory::{MapError, RegionError, SpaceError};
use vhost_user::session::SessionError;
use vhost_user::socket::SocketError;
use virtio::Features;
use virtqueue::{ActivateError, RingError};

/// Why a device cannot be used. After any but [`DriverError::NoSession`] the connection is of no use.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The protocol.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A file of shared memory could not be mapped.
    #[error("cannot share memory with the device: {0}")]
    Map(#[from] MapError),
    /// A region of shared memory could not be made.
    #[error("cannot share memory with the device: {0}")]
    Region(#[from] RegionError),
    /// The regions do not fit together.
    #[error("cannot share memory with the device: {0}")]
    Space(#[from] SpaceError),
    /// A system call failed.
    #[error("cannot {what}: {source}; raise the limit of open files (ulimit -n) if it is low")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The back-end lacks something without which there is nothing to do.
    #[error("the back-end does not offer {0}; name the socket of a crypto device")]
    Missing(&'static str),
    /// The back-end lacks features of the ring that were asked for.
    #[error("the back-end does not offer the features {0}; leave them out")]
    Features(Features),
    /// A message was refused.
    #[error("the back-end refused {0}; its log may say why")]
    Refused(&'static str),
    /// An answer to another question.
    #[error("the back-end answered what was not asked")]
    Surprise,
    /// There is no session for this set-up.
    #[error("the device makes no session of this algorithm, key and result; its log says why")]
    NoSession,
    /// The ring could not be made.
    #[error("cannot make a queue: {0}")]
    Queue(#[from] ActivateError),
    /// The device broke a rule of the ring.
    #[error("the device broke the ring: {0}")]
    Ring(#[from] RingError),
    /// More requests than the queue holds.
    #[error("the queue has no room for another request; submit fewer at once")]
    Full,
    /// A request that does not fit its buffers.
    #[error("a request of {bytes} bytes does not fit a buffer of {room} bytes")]
    TooLong {
        /// Bytes of the request or of its result.
        bytes: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// Nothing came back.
    #[error("no request came back within {0} ms; see whether the device still runs")]
    Silent(u128),
    /// The status is none of the specification, or does not fit the used length.
    #[error(
        "the device gave back a request with status {status} and {written} bytes written (VIRTIO 1.3 §5.9.7.2)"
    )]
    Status {
        /// As it was written.
        status: u8,
        /// The used length.
        written: u32,
    },
    /// A request that must succeed did not.
    #[error("the device did not do {what}: {status:?}")]
    Failed {
        /// What was asked for.
        what: String,
        /// What the device said.
        status: virtio::crypto::Status,
    },
    /// The library itself refused.
    #[error("the library does not do {what}: {answer}")]
    Library {
        /// What was asked for.
        what: String,
        /// What it answered.
        answer: String,
    },
    /// A result that is not the library's.
    #[error("the device's result of {0} is not the library's")]
    Wrong(String),
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DriverError {
    move |source| DriverError::System { what, source }
}
