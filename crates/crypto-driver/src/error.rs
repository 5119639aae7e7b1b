//! Why a device cannot be used.
use std::io;

use memory::{MapError, RegionError, SpaceError};
use vhost_user::session::SessionError;
use vhost_user::socket::SocketError;
use virtio::Features;
use virtqueue::{ActivateError, RingError};

/// Why a device cannot be used. After every error except [`DriverError::NoSession`] the connection cannot be used any
/// more.
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
    /// The regions overlap or are too many.
    #[error("cannot share memory with the device: {0}")]
    Space(#[from] SpaceError),
    /// A system call failed.
    #[error("cannot {what}: {source}; raise the limit of open files (ulimit -n) if it is low")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system answered.
        source: io::Error,
    },
    /// The back-end lacks something that is required.
    #[error("the back-end does not offer {0}; name the socket of a crypto device")]
    Missing(&'static str),
    /// The back-end lacks required features of the ring.
    #[error("the back-end does not offer the features {0}; leave them out")]
    Features(Features),
    /// A message was refused.
    #[error("the back-end refused {0}; its log may say why")]
    Refused(&'static str),
    /// The answer does not belong to the request.
    #[error("the back-end answered what was not asked")]
    Surprise,
    /// The device refuses a session with this set-up.
    #[error("the device makes no session of this algorithm, key and result; its log says why")]
    NoSession,
    /// The ring could not be made.
    #[error("cannot make a queue: {0}")]
    Queue(#[from] ActivateError),
    /// The device broke a rule of the ring.
    #[error("the device broke the ring: {0}")]
    Ring(#[from] RingError),
    /// There are more requests than the queue holds.
    #[error("the queue has no room for another request; submit fewer at once")]
    Full,
    /// The request does not fit its buffers.
    #[error("a request of {bytes} bytes does not fit a buffer of {room} bytes")]
    TooLong {
        /// Bytes of the request or of its result.
        bytes: usize,
        /// Bytes of the buffer.
        room: usize,
    },
    /// No request completed in time.
    #[error("no request came back within {0} ms; see whether the device still runs")]
    Silent(u128),
    /// The status is not one of the specification, or does not fit the used length.
    #[error(
        "the device gave back a request with status {status} and {written} bytes written (VIRTIO 1.3 §5.9.7.2)"
    )]
    Status {
        /// The status byte.
        status: u8,
        /// The used length.
        written: u32,
    },
    /// A request failed that must succeed.
    #[error("the device did not do {what}: {status:?}")]
    Failed {
        /// The request.
        what: String,
        /// The device's status.
        status: virtio::crypto::Status,
    },
    /// The library itself reported an error.
    #[error("the library does not do {what}: {answer}")]
    Library {
        /// The call.
        what: String,
        /// The library's error.
        answer: String,
    },
    /// The device's result differs from the library's.
    #[error("the device's result of {0} is not the library's")]
    Wrong(String),
}

pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> DriverError {
    move |source| DriverError::System { what, source }
}
