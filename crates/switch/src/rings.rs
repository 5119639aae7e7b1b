//! The state of each queue of a running switch.
use std::time::Instant;

use frame::{QueueCounters, Side};

use crate::control::Control;
use crate::ring_report::{self, Seen};
use crate::{QueueId, RingReport};

impl Control {
    /// The state of each queue of each port.
    pub(crate) fn rings(&self) -> Vec<RingReport> {
        let mut reports = Vec::new();
        for (port, entry) in self.present().filter(|(_, entry)| !entry.is_mirror()) {
            let Some(of_port) = &entry.port else { continue };
            for pair in 0..of_port.queue_pairs() {
                for side in [Side::FromGuest, Side::ToGuest] {
                    if let Some(counters) = of_port.counters(pair, side) {
                        reports.push(self.ring(QueueId { port, pair }, side, &counters));
                    }
                }
            }
        }
        reports
    }

    fn ring(&self, id: QueueId, side: Side, counters: &QueueCounters) -> RingReport {
        let entry = &self.entries[usize::from(id.port.0)];
        let found = self.attachments.ring(id, side);
        let (quiet, full_since) = self.activity.of(id, side, counters, Instant::now());
        let worker = found.as_ref().map(|(_, worker)| *worker);
        let worker_sleeps = worker.is_some_and(|worker| self.attachments.pool.is_asleep(worker));
        let seen = Seen { quiet, full_since, worker_sleeps };
        let ring = found.as_ref().and_then(|(ring, _)| ring.as_ref());
        let words = match (&found, side) {
            (None, _) => format!("no queue runs: {}", entry.describe()),
            (Some(_), Side::FromGuest) => ring_report::from_guest(ring, seen),
            (Some(_), Side::ToGuest) => ring_report::to_guest(ring, seen),
        };
        RingReport {
            port: entry.name.clone(),
            pair: id.pair,
            from_guest: side == Side::FromGuest,
            runs: found.is_some(),
            worker,
            frames: counters.counts().frames,
            quiet_seconds: quiet.map(|quiet| quiet.as_secs_f64()),
            ring: ring.map(Into::into),
            words,
        }
    }
}
