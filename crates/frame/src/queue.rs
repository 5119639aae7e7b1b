//! The data side of a port: one queue in one direction, owned by one worker at a time.
use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{FrameBatch, QueueCounters, RingState};

/// Why a queue stopped by itself. The port is informed, and tells the peer if the protocol allows it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The peer's ring breaks a rule.
    #[error(transparent)]
    Ring(#[from] virtqueue::RingError),
    /// The system refuses a call that worked before.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The thread that held the queue is stuck or has panicked, and the queue cannot be recovered. Its ring can be
    /// used for another queue.
    #[error("lost: {0}")]
    Lost(String),
}

/// A queue from which frames come.
pub trait Source: Any + Send {
    /// Takes up to `max` available frames, borrowed in their sender's memory. Malformed frames are counted and
    /// left out.
    ///
    /// The batch that an earlier call returned must have been released.
    ///
    /// # Errors
    /// The peer's ring is malformed, the system refuses a call that worked before, or the queue is lost with its
    /// worker. The source returns no more frames.
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError>;

    /// Whether the last call of [`Source::rx_burst`] found anything, including malformed frames. If so, the batch
    /// must be released even if it is empty.
    fn needs_release(&self) -> bool;

    /// The batch of the last call of [`Source::rx_burst`], for callers that change snapshots before they send the
    /// frames. The changed snapshots are delivered; the sender's memory stays unchanged. `None` if the source does
    /// not allow it.
    fn batch_mut(&mut self) -> Option<&mut FrameBatch> {
        None
    }

    /// Gives all buffers of the batch back to the sender at once.
    fn release(&mut self);

    /// Asks for [`Source::wake_fd`] to become readable when something comes. Returns true if something has come
    /// already. The caller must not sleep then.
    #[must_use]
    fn sleep(&mut self) -> bool;

    /// Resumes polling: no wake-up is needed, and one that came is discarded.
    fn wake(&mut self);

    /// Becomes readable after [`Source::sleep`], when something comes. `None` if this source never wakes its worker.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;

    /// What passed.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// The state of the queue's ring, if it is the device half of one.
    fn ring(&self) -> Option<RingState> {
        None
    }
}

/// A queue to which frames go.
pub trait Sink: Any + Send {
    /// Copies the frames of `batch` that `which` names, in that order, to the receiver, and notifies it. Frames for
    /// which there is no room are counted as dropped, with the reason; the call never waits.
    ///
    /// # Errors
    /// The peer's ring is malformed, the system refuses a call that worked before, or the queue is lost with its
    /// worker. The sink takes no more frames.
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError>;

    /// How many frames of the usual length the sink has room for, at least. For senders that wait rather than lose
    /// frames. Sinks that cannot tell return `usize::MAX`.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// The counters of the queue.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// The state of the queue's ring, if it is the device half of one.
    fn ring(&self) -> Option<RingState> {
        None
    }
}
