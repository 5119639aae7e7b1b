//! Gives the frames of a burst to the sinks of the ports that a program names.
use std::ops::Range;
use std::time::Instant;

use frame::{DropReason, FrameBatch, HeadEdit, Metadata, QueueCounters};
use pipeline::{Flooded, Key, Now, Output, PortId, Program, TablesId, WorkerFlows};

use crate::tx_queues::{Sent, TxQueues};
use crate::worker_counters::Outcome;

/// The state with which a burst is forwarded.
pub(crate) struct Forwarder<'a> {
    pub key: &'a Key,
    pub program: &'a dyn Program,
    pub tx_queues: &'a mut TxQueues,
    /// The counters of the source's queue, where the switch counts what it drops.
    pub counters: &'a QueueCounters,
}

/// The sinks, while a program decides about one burst.
struct ToSinks<'a> {
    key: &'a Key,
    tx_queues: &'a mut TxQueues,
    counters: &'a QueueCounters,
    batch: &'a FrameBatch,
    /// The counts of a burst that went to one port as a whole.
    sent: Option<Sent>,
    /// The counts of frames that were handed over before the program had decided about all.
    early: Sent,
    /// Whether the program has held frames that go on.
    again: bool,
}

impl ToSinks<'_> {
    /// Sends frames of which more bytes than the snapshot were read: the port gets the bytes that were read.
    #[cold]
    fn send_windows(&mut self, to: PortId, frames: Range<u16>) -> bool {
        frames.fold(true, |taken, index| {
            let frames = index..index + 1;
            let one_taken = match self.tx_queues.edits.windows.is_extended(index.into()) {
                true => {
                    self.edit(frames, &HeadEdit::NONE);
                    self.send_edited(to)
                }
                false => self.tx_queues.push(to, frames, self.batch, self.key),
            };
            taken && one_taken
        })
    }
}

impl Output for ToSinks<'_> {
    #[inline]
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool {
        if self.tx_queues.edits.windows.any() {
            return self.send_windows(to, frames);
        }
        self.tx_queues.push(to, frames, self.batch, self.key)
    }

    #[inline]
    fn send_all(&mut self, to: PortId) -> bool {
        if self.tx_queues.edits.windows.any() {
            return false;
        }
        self.sent = self.tx_queues.send_all(self.batch, to);
        self.sent.is_some()
    }

    fn window(&mut self, frame: u16, bytes: usize) -> &[u8] {
        let at = usize::from(frame);
        self.tx_queues.edits.windows.extend(at, self.batch.frame(at), bytes)
    }

    fn edit(&mut self, frames: Range<u16>, edit: &HeadEdit<'_>) {
        if !self.tx_queues.edits.has_room(frames.start) {
            self.early += self.tx_queues.flush(self.batch);
        }
        let counters = self.counters;
        self.tx_queues.edits.edit(self.batch, frames, edit, |reason| counters.dropped(reason, 1));
    }

    fn attach(&mut self, metadata: &Metadata) {
        self.tx_queues.edits.attach(metadata);
    }

    fn send_edited(&mut self, to: PortId) -> bool {
        self.tx_queues.push_edited(to, self.key)
    }

    fn flows(&mut self, tables: TablesId) -> &mut Option<Box<WorkerFlows>> {
        &mut self.tx_queues.flows[usize::from(tables.0)]
    }

    fn again(&mut self) {
        self.again = true;
    }

    fn drop(&mut self, reason: DropReason, frames: u64) {
        self.counters.dropped(reason, frames);
    }
}

impl Forwarder<'_> {
    /// Gives every frame to its sinks, or counts why it is dropped.
    #[inline]
    pub fn forward(mut self, batch: &FrameBatch) -> Outcome {
        let (mut outcome, again) =
            self.forward_by(batch, |program, batch, now, output| program.run(batch, now, output));
        if again {
            self.forward_held(batch, &mut outcome);
        }
        outcome
    }

    /// Gives frames to their sinks. Whether the program has held frames that go on.
    #[inline(always)]
    fn forward_by(
        &mut self,
        batch: &FrameBatch,
        run: impl FnOnce(&dyn Program, &FrameBatch, Now<'_>, &mut dyn Output) -> Flooded,
    ) -> (Outcome, bool) {
        let Forwarder { key, program, tx_queues, counters } = self;
        let (sent, early) = (None, Sent::default());
        let mut output = ToSinks { key, tx_queues, counters, batch, sent, early, again: false };
        let flooded = run(*program, batch, &Instant::now, &mut output);
        let ToSinks { tx_queues, sent, early, again, .. } = output;
        let mut sent = sent.unwrap_or_else(|| tx_queues.flush(batch));
        sent += early;
        tx_queues.edits.windows.clear();
        if sent.gone > 0 {
            counters.dropped(DropReason::NotConnected, sent.gone);
        }
        let outcome =
            Outcome { flooded: flooded.frames, flood_copies: flooded.copies, copies: sent.accepted };
        (outcome, again)
    }

    /// Gives frames to their sinks that the program has held, after the burst that made them go on.
    #[cold]
    fn forward_held(&mut self, burst: &FrameBatch, outcome: &mut Outcome) {
        let Some(mut held) = self.tx_queues.held.take() else { return };
        loop {
            let Forwarder { key, program, tx_queues, counters } = &mut *self;
            let (batch, sent, early) = (burst, None, Sent::default());
            let mut output = ToSinks { key, tx_queues, counters, batch, sent, early, again: false };
            if !program.take_held(&mut held, &mut output) {
                break;
            }
            let run = |program: &dyn Program, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output| {
                program.run_held(batch, now, output)
            };
            let (more, _) = self.forward_by(held.batch(), run);
            outcome.flooded += more.flooded;
            outcome.flood_copies += more.flood_copies;
            outcome.copies += more.copies;
        }
        self.tx_queues.held = Some(held);
    }
}

#[cfg(test)]
mod tests;
