//! The counters of a queue pair.
use std::sync::Arc;

use crate::{QueueCounters, Side};

/// The counters of a queue pair's two queues.
#[derive(Clone, Debug, Default)]
pub struct PairCounters {
    /// The queue of frames from the guest.
    pub from_guest: Arc<QueueCounters>,
    /// The queue of frames to the guest.
    pub to_guest: Arc<QueueCounters>,
}

impl PairCounters {
    /// The counters of one queue.
    pub fn of(&self, side: Side) -> &Arc<QueueCounters> {
        match side {
            Side::FromGuest => &self.from_guest,
            Side::ToGuest => &self.to_guest,
        }
    }
}
