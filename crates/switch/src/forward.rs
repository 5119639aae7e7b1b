//! Gives the frames of a burst to the sinks of the ports that a program names.
use std::ops::Range;
use std::time::Instant;

use frame::{DropReason, FrameBatch, QueueCounters};
use pipeline::{Key, Output, PortId, Program};

use crate::tx_queues::{Sent, TxQueues};
use crate::worker_counters::Outcome;

/// What forwarding needs beside the burst.
pub(crate) struct Forwarder<'a> {
    pub key: &'a Key,
    pub program: &'a dyn Program,
    pub tx_queues: &'a mut TxQueues,
    /// Of the queue that the burst came from: what the switch drops is counted there.
    pub counters: &'a QueueCounters,
}

/// The sinks, while a program decides about one burst.
struct ToSinks<'a> {
    key: &'a Key,
    tx_queues: &'a mut TxQueues,
    counters: &'a QueueCounters,
    batch: &'a FrameBatch,
    /// Of a burst that went to one port as a whole.
    sent: Option<Sent>,
}

impl Output for ToSinks<'_> {
    #[inline]
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool {
        self.tx_queues.push(to, frames, self.batch, self.key)
    }

    #[inline]
    fn send_all(&mut self, to: PortId) -> bool {
        self.sent = self.tx_queues.send_all(self.batch, to);
        self.sent.is_some()
    }

    fn drop(&mut self, reason: DropReason, frames: u64) {
        self.counters.dropped(reason, frames);
    }
}

impl Forwarder<'_> {
    /// Gives every frame to the sinks it goes to, or counts why not.
    #[inline]
    pub fn forward(self, batch: &FrameBatch) -> Outcome {
        let Forwarder { key, program, tx_queues, counters } = self;
        let mut output = ToSinks { key, tx_queues, counters, batch, sent: None };
        let flooded = program.run(batch, &Instant::now, &mut output);
        let ToSinks { tx_queues, sent, .. } = output;
        let sent = sent.unwrap_or_else(|| tx_queues.flush(batch));
        if sent.gone > 0 {
            counters.dropped(DropReason::NotConnected, sent.gone);
        }
        Outcome { flooded: flooded.frames, flood_copies: flooded.copies, copies: sent.accepted }
    }
}
