//! The events that the control thread learns from the workers' reports.
use std::time::Duration;

use frame::{QueueError, Side};

use crate::QueueId;
use crate::heartbeat::WorkerPosition;
use crate::mailbox::Generation;

/// An event for a port, or for the operator.
pub(crate) enum Event {
    /// A queue stopped by itself and was removed.
    Stopped { id: QueueId, side: Side, generation: Generation, why: QueueError },
    /// A worker's thread was abandoned, and another took its place.
    Replaced(Replaced),
}

/// Why a worker's thread was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The thread was in one call for this long. The number is its thread id.
    Stuck(Duration, i32),
    /// The thread panicked with this message.
    Panic(String),
}

/// A worker whose thread was abandoned.
pub(crate) struct Replaced {
    pub worker: usize,
    pub cause: Cause,
    /// The queues that the thread was in; none if it has continued in the meantime.
    pub position: WorkerPosition,
    /// Queues that are lost with the thread.
    pub lost: Vec<(QueueId, Side, Generation)>,
}
