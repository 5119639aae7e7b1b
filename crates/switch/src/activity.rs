//! When frames last passed each queue, to a precision of one second.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use frame::{DropReason, QueueCounters, Side};

use crate::port_entry::PortEntry;
use crate::{PortId, QueueId};

const INTERVAL: Duration = Duration::from_secs(1);

/// The last values of one queue's counters, and the time of their last change.
#[derive(Clone, Copy, Debug)]
struct Last {
    frames: u64,
    full: u64,
    since: Instant,
}

/// The activity of all queues.
#[derive(Debug)]
pub(crate) struct Activity {
    watches: bool,
    looked: Option<Instant>,
    last: BTreeMap<(QueueId, Side), Last>,
}

impl Activity {
    pub fn new(watches: bool) -> Self {
        Activity { watches, looked: None, last: BTreeMap::new() }
    }

    /// Reads the counters of all queues, if a second has passed.
    pub fn look(&mut self, now: Instant, ports: &[PortEntry]) {
        if !self.watches || self.looked.is_some_and(|looked| now - looked < INTERVAL) {
            return;
        }
        self.looked = Some(now);
        for (port, entry) in (0..).map(PortId).zip(ports) {
            let Some(of_port) = &entry.port else {
                self.last.retain(|(id, _), _| id.port != port);
                continue;
            };
            for pair in 0..of_port.queue_pairs() {
                for side in [Side::FromGuest, Side::ToGuest] {
                    if let Some(counters) = of_port.counters(pair, side) {
                        self.update((QueueId { port, pair }, side), &counters, now);
                    }
                }
            }
        }
    }

    fn update(&mut self, of: (QueueId, Side), counters: &QueueCounters, now: Instant) {
        let frames = counters.frames();
        if self.last.get(&of).is_none_or(|last| last.frames != frames) {
            let full = counters.drops(DropReason::ReceiverFull);
            self.last.insert(of, Last { frames, full, since: now });
        }
    }

    /// How long no frame has passed, and how many frames found no buffer in that time.
    pub fn of(
        &self,
        id: QueueId,
        side: Side,
        counters: &QueueCounters,
        now: Instant,
    ) -> (Option<Duration>, u64) {
        let Some(last) = self.last.get(&(id, side)) else { return (None, 0) };
        if last.frames != counters.frames() {
            return (Some(Duration::ZERO), 0);
        }
        let full = counters.drops(DropReason::ReceiverFull).saturating_sub(last.full);
        (Some(now.saturating_duration_since(last.since)), full)
    }
}
