//! The data side of a port: one queue in one direction, owned by one worker at a time.
use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{FrameBatch, QueueCounters, RingState};

/// Why a queue stopped by itself. Its port hears of it and tells the peer if there is a way to.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The peer's ring breaks a rule.
    #[error(transparent)]
    Ring(#[from] virtqueue::RingError),
    /// The system refuses what worked before.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is in the hands of a thread that never came back, or panicked; there is no way to get it back. What
    /// it was made of can be used for another.
    #[error("lost: {0}")]
    Lost(String),
}

/// A queue from which frames come.
pub trait Source: Any + Send {
    /// Takes up to `max` frames that are there, borrowed where their sender put them. Malformed frames are
    /// counted and left out. After an error the queue yields nothing more.
    ///
    /// What an earlier call returned must have been released.
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError>;

    /// Whether the last call of [`Source::rx_burst`] found anything, malformed frames included: an empty
    /// batch is to be released too then.
    fn needs_release(&self) -> bool;

    /// What the last call of [`Source::rx_burst`] returned, for whoever changes snapshots before passing frames
    /// on: it is the snapshots that are delivered, and the sender's memory stays as it is. `None` of sources that
    /// do not let that happen.
    fn batch_mut(&mut self) -> Option<&mut FrameBatch> {
        None
    }

    /// Gives all buffers of the batch back to the sender at once.
    fn release(&mut self);

    /// Asks for [`Source::wake_fd`] to become readable when something comes. True if something is there
    /// already: then do not sleep.
    #[must_use]
    fn sleep(&mut self) -> bool;

    /// Polling goes on: no wake-up is needed, and one that came is forgotten.
    fn wake(&mut self);

    /// Becomes readable after [`Source::sleep`]; `None` if this source never wakes anybody.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;

    /// What passed.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// How its ring stands, if it is the device half of one.
    fn ring(&self) -> Option<RingState> {
        None
    }
}

/// A queue to which frames go.
pub trait Sink: Any + Send {
    /// Copies the frames of `batch` that `which` names, in that order, to the receiver, and tells it.
    /// What it has no room for is counted as dropped, with the reason; it never waits.
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError>;

    /// For how many frames of the usual length there is room at least: for senders that would rather wait
    /// than lose. Sinks that cannot tell say that there is room.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// What passed and what did not.
    fn counters(&self) -> &Arc<QueueCounters>;

    /// How its ring stands, if it is the device half of one.
    fn ring(&self) -> Option<RingState> {
        None
    }
}
