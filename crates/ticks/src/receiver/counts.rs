//! The counts of a receiver. The latency of a tick is computed later, when there is an alignment of the clocks before
//! and after it.

use clocks::{Alignment, Alignments};
use measure::Histogram;
use serde::{Deserialize, Serialize};

use crate::page::{Page, Record};

/// The results of the receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Ticks whose numbers the receiver saw.
    pub ticks: u64,
    /// Ticks that were overwritten before the receiver ran.
    pub lost: u64,
    /// Ticks that the receiver found together with another one, because their interrupts had merged or it ran late.
    pub coalesced: u64,
    /// How often the receiver woke.
    pub wake_ups: u64,
    /// Interrupts that the kernel had counted for the receiver; 0 if it polls.
    pub interrupts: u64,
    /// Ticks received after the budget.
    pub late: u64,
    /// Ticks that seem to be received before they were sent, by more than the clocks' error: must be 0.
    pub before_sent: u64,
    /// The time from due to running in user space.
    pub from_due: Histogram,
    /// The time from sent to running in user space.
    pub from_sent: Histogram,
    /// The time from running in user space to the end of the tick's work.
    pub to_done: Histogram,
    /// The latest tick: number, ns from due to sent, ns from sent to received.
    pub worst: (u64, u64, u64),
    /// The alignments of the clocks before the first tick and after the last one.
    pub alignments: Alignments,
    /// How often the clocks were aligned in between.
    pub realigned: u64,
    /// Settings that the system refused.
    pub remarks: Vec<String>,
}

/// Counts, and ticks whose latency is not computed yet.
pub struct Counts {
    budget_ns: u64,
    /// The last two alignments, for ticks between them.
    between: Alignments,
    /// The number of the tick up to which the later alignment is valid.
    aligned_to: u64,
    /// The last tick whose latency was computed.
    settled: u64,
    /// The last tick that was seen.
    seen: u64,
    received: Received,
}

impl Counts {
    pub fn new(budget_ns: u64, alignment: Alignment) -> Self {
        let between = Alignments { before: alignment, after: alignment };
        let received = Received {
            ticks: 0,
            lost: 0,
            coalesced: 0,
            wake_ups: 0,
            interrupts: 0,
            late: 0,
            before_sent: 0,
            from_due: Histogram::new(),
            from_sent: Histogram::new(),
            to_done: Histogram::new(),
            worst: (0, 0, 0),
            alignments: between,
            realigned: 0,
            remarks: Vec::new(),
        };
        Counts { budget_ns, between, aligned_to: 0, settled: 0, seen: 0, received }
    }

    /// The last alignment of the clocks.
    pub fn alignment(&self) -> Alignment {
        self.between.after
    }

    /// Notes that the receiver ran and found `ticks` ticks.
    pub fn woken(&mut self, ticks: u64) {
        self.received.wake_ups += 1;
        self.received.coalesced += ticks.saturating_sub(1);
    }

    pub fn lost(&mut self) {
        self.received.lost += 1;
    }

    pub fn interrupts(&mut self, count: u64) {
        self.received.interrupts += count;
    }

    pub fn seen(&mut self, latest: u64) {
        self.seen = self.seen.max(latest);
    }

    /// Notes an alignment of the clocks after tick `latest`. If the source did not answer, the last alignment is
    /// extended.
    pub fn aligned(&mut self, alignment: Option<Alignment>, latest: u64) {
        // All before the last one was settled long ago.
        let before = self.between.after;
        self.between = Alignments { before, after: alignment.unwrap_or(before) };
        self.aligned_to = latest;
        self.received.realigned += u64::from(alignment.is_some());
    }

    /// Computes the latencies of at most `most` ticks before the last alignment.
    pub fn settle(&mut self, page: &Page, most: usize) {
        let until = self.aligned_to.min(self.settled.saturating_add(most as u64));
        for number in self.settled + 1..=until {
            if let Some(record) = page.record(number) {
                self.count(&record);
            }
        }
        self.settled = self.settled.max(until);
    }

    fn count(&mut self, record: &Record) {
        let (between, received) = (&self.between, &mut self.received);
        let tick = record.tick;
        let now_ns = between.of_source(record.received_ns);
        let (from_due, from_sent) = (now_ns.saturating_sub(tick.due_ns), now_ns.saturating_sub(tick.sent_ns));
        received.ticks += 1;
        received.from_due.record_ns(from_due);
        received.from_sent.record_ns(from_sent);
        received.to_done.record_ns(record.done_ns.saturating_sub(record.received_ns));
        received.late += u64::from(from_due > self.budget_ns);
        received.before_sent += u64::from(now_ns + between.error_ns() < tick.sent_ns);
        if from_due > received.worst.1 + received.worst.2 {
            received.worst = (tick.number, tick.sent_ns.saturating_sub(tick.due_ns), from_sent);
        }
    }

    /// Computes all remaining latencies, with the alignment after the last tick.
    pub fn finish(mut self, page: &Page, after: Alignment, remarks: Vec<String>) -> Received {
        self.settle(page, usize::MAX);
        self.between = Alignments { before: self.between.after, after };
        self.aligned_to = self.seen;
        self.settle(page, usize::MAX);
        self.received.alignments.after = after;
        self.received.remarks = remarks;
        self.received
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::page::{BYTES, Tick};

    #[test]
    fn all_ticks_count_where_some_were_settled_before() {
        let memory = rustix::fs::memfd_create("ticks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, BYTES).unwrap();
        let page = Page::map(memory.as_fd()).unwrap();
        for number in 1..=100 {
            let due_ns = number * 1_000;
            page.put(Tick { number, due_ns, sent_ns: due_ns });
            page.set_received(number, due_ns + 7, due_ns + 7);
        }
        let alignment = |at_ns| Alignment { at_ns, offset_ns: 0, error_ns: 1 };
        let mut counts = Counts::new(50, alignment(0));
        counts.aligned(Some(alignment(60_500)), 60);
        counts.settle(&page, 4);
        counts.settle(&page, 100);
        counts.seen(100);
        let received = counts.finish(&page, alignment(110_000), Vec::new());
        assert_eq!((received.ticks, received.from_due.count(), received.late), (100, 100, 0));
    }
}
