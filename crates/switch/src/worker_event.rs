//! What the control thread hears of workers.
use std::time::Duration;

use frame::{QueueError, Side};

use crate::QueueId;
use crate::heartbeat::WorkerPosition;
use crate::mailbox::Generation;

/// What a port is to be told, or the operator.
pub(crate) enum Event {
    /// A queue stopped by itself and is out.
    Stopped { id: QueueId, side: Side, generation: Generation, why: QueueError },
    /// A worker's thread was given up; another does its work.
    Replaced(Replaced),
}

/// Why a worker's thread was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The thread was in one call for this long; its thread id.
    Stuck(Duration, i32),
    /// The thread panicked with this message.
    Panic(String),
}

/// A worker's thread was given up.
pub(crate) struct Replaced {
    pub worker: usize,
    pub cause: Cause,
    /// In which queues it was; none if it has come back meanwhile.
    pub position: WorkerPosition,
    /// Queues that are lost with it.
    pub lost: Vec<(QueueId, Side, Generation)>,
}
