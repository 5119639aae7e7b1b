//! In-flight tracking of a split ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memory::{AtomicSlice, Mapping};

use super::region::{InFlightError, SplitHeader, SplitState, VERSION, bind, check_header};
use crate::QueueSize;

/// The region of one split ring.
pub struct SplitInFlight {
    header: AtomicSlice<SplitHeader>,
    states: AtomicSlice<SplitState>,
    /// The counter for the order of popping, which continues from the value of the previous process.
    counter: u64,
    last_batch_head: u16,
    /// Heads that the previous process had popped, oldest first.
    resubmit: VecDeque<u16>,
    /// For each head, whether its chain was in flight already when the region was opened.
    was_in_flight: Vec<bool>,
}

impl SplitInFlight {
    /// Opens the region of a queue at `offset` bytes into the mapping, and finds the chains that are in flight.
    /// `used_index` is the current index of the used ring. A region of version 0 is new and is initialized.
    ///
    /// # Errors
    /// The mapping is too small or `offset` is not aligned; the region was written with another version or queue
    /// size; or its indices do not fit the queue.
    pub fn open(
        mapping: &Arc<Mapping>,
        offset: u64,
        size: QueueSize,
        used_index: u16,
    ) -> Result<Self, InFlightError> {
        let (header, states) = bind::<SplitHeader, SplitState>(mapping, offset, size)?;
        let mut region = SplitInFlight {
            header,
            states,
            counter: 0,
            last_batch_head: 0,
            resubmit: VecDeque::new(),
            was_in_flight: vec![false; usize::from(size.get())],
        };
        let head = &region.header[0];
        let (version, descriptors) = (head.version.load(Acquire), head.descriptors.load(Relaxed));
        if version == 0 {
            head.descriptors.store(size.get(), Relaxed);
            head.used_index.store(used_index, Relaxed);
            head.version.store(VERSION, Release);
            return Ok(region);
        }
        check_header(version, descriptors, size)?;
        region.recover(used_index)?;
        Ok(region)
    }

    /// vhost-user, "Inflight I/O tracking", split virtqueue, "When reconnecting".
    fn recover(&mut self, used_index: u16) -> Result<(), InFlightError> {
        let head = &self.header[0];
        let recorded = head.used_index.load(Relaxed);
        let batch = used_index.wrapping_sub(recorded);
        if usize::from(batch) > self.states.len() {
            return Err(InFlightError::Entry { entry: 0, field: "used_idx", value: recorded.into() });
        }
        let mut at = head.last_batch_head.load(Relaxed);
        for _ in 0..batch {
            let state = self.states.get(usize::from(at)).ok_or(InFlightError::Entry {
                entry: at,
                field: "last_batch_head",
                value: at.into(),
            })?;
            state.in_flight.store(0, Relaxed);
            at = state.next.load(Relaxed);
        }
        head.used_index.store(used_index, Release);
        let last = head.last_batch_head.load(Relaxed);
        self.last_batch_head = if usize::from(last) < self.states.len() { last } else { 0 };
        let mut open: Vec<(u64, u16)> = (0..self.states.len() as u16)
            .filter(|&i| self.states[usize::from(i)].in_flight.load(Relaxed) != 0)
            .map(|i| (self.states[usize::from(i)].counter.load(Relaxed), i))
            .collect();
        open.sort_unstable();
        self.counter = open.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        self.resubmit = open.into_iter().map(|(_, index)| index).collect();
        self.resubmit.iter().for_each(|head| self.was_in_flight[usize::from(*head)] = true);
        Ok(())
    }

    /// The number of chains to be popped again.
    pub fn resubmit_len(&self) -> u16 {
        self.resubmit.len() as u16
    }

    pub(crate) fn peek_resubmit(&self) -> Option<u16> {
        self.resubmit.front().copied()
    }

    pub(crate) fn resubmitted(&mut self) {
        self.resubmit.pop_front();
    }

    /// The steps of "When receiving available buffers from the driver".
    pub(crate) fn pop(&mut self, heads: impl Iterator<Item = u16>) {
        for head in heads {
            self.was_in_flight[usize::from(head)] = false;
            let state = &self.states[usize::from(head)];
            state.counter.store(self.counter, Relaxed);
            self.counter = self.counter.wrapping_add(1);
            // Release: a process that recovers and sees the flag sees the counter.
            state.in_flight.store(1, Release);
        }
    }

    /// Not possible for a chain that was in flight when the region was opened. Chains before it may have been used,
    /// so its place in the ring no longer matches its count. The latest is rewound first. If the process is killed in
    /// between, the next process finds the oldest chains in flight, as it expects.
    pub(crate) fn rewind(&mut self, mut heads: impl DoubleEndedIterator<Item = u16> + Clone) -> bool {
        if heads.clone().any(|head| self.was_in_flight[usize::from(head)]) {
            return false;
        }
        while let Some(head) = heads.next_back() {
            self.states[usize::from(head)].in_flight.store(0, Release);
        }
        true
    }

    /// The steps of "When supplying used buffers to the driver". `publish` moves the used ring's index.
    pub(crate) fn add_used(
        &mut self,
        heads: impl Iterator<Item = u16> + Clone,
        used_index: u16,
        publish: impl FnOnce(u16),
    ) {
        let header = &self.header[0];
        for head in heads.clone() {
            self.states[usize::from(head)].next.store(self.last_batch_head, Relaxed);
            self.last_batch_head = head;
            header.last_batch_head.store(head, Release);
        }
        publish(used_index);
        for head in heads {
            self.states[usize::from(head)].in_flight.store(0, Release);
        }
        header.used_index.store(used_index, Release);
    }
}
