//! In-flight tracking of a packed ring.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use memory::{AtomicSlice, Mapping};

use super::region::{InFlightError, PackedHeader, PackedState, VERSION, bind, check_header};
use crate::PackedPosition;
use crate::QueueSize;

/// A chain as the region recorded it. The ring may have been overwritten since.
#[derive(Clone, Debug)]
pub(crate) struct StoredBuffer {
    pub id: u16,
    /// The slot from which the chain will count as popped.
    pub slot: u16,
    /// Address, length and flags of its descriptors.
    pub descriptors: Vec<(u64, u32, u16)>,
}

/// The region of one packed ring.
pub struct PackedInFlight {
    header: AtomicSlice<PackedHeader>,
    states: AtomicSlice<PackedState>,
    counter: u64,
    /// The free list in this process's memory. The list in the region is written, but never trusted.
    next_free: Vec<u16>,
    free_head: u16,
    next_used: PackedPosition,
    /// Head and last entry of a chain in flight, by buffer id.
    entries: Vec<Option<(u16, u16)>>,
    resubmit: VecDeque<(u16, StoredBuffer)>,
    /// For each buffer id, whether its chain was in flight already when the region was opened.
    was_in_flight: Vec<bool>,
    /// Heads of the batch that is being used.
    batch: Vec<u16>,
}

impl PackedInFlight {
    /// Opens the region of a queue at `offset` bytes into the mapping, and finds the chains that are in flight.
    /// `flags_at` reads the present flags of a slot of the descriptor ring. A region of version 0 is new. It is
    /// initialized, and the queue is at position `base`.
    ///
    /// # Errors
    /// The mapping is too small or `offset` is not aligned; the region was written with another version or queue
    /// size; or its entries do not fit the queue or each other.
    pub fn open(
        mapping: &Arc<Mapping>,
        offset: u64,
        size: QueueSize,
        base: PackedPosition,
        flags_at: impl Fn(u16) -> u16,
    ) -> Result<Self, InFlightError> {
        let (header, states) = bind::<PackedHeader, PackedState>(mapping, offset, size)?;
        let slots = usize::from(size.get());
        let mut region = PackedInFlight {
            header,
            states,
            counter: 0,
            // The last entry links to one past the end, which no full list ever follows.
            next_free: (1..=size.get()).collect(),
            free_head: 0,
            next_used: PackedPosition::START,
            entries: vec![None; slots],
            resubmit: VecDeque::new(),
            was_in_flight: vec![false; slots],
            batch: Vec::with_capacity(slots),
        };
        let head = &region.header[0];
        let (version, descriptors) = (head.version.load(Acquire), head.descriptors.load(Relaxed));
        if version == 0 {
            for (state, &next) in region.states.iter().zip(&region.next_free) {
                state.next.store(next, Relaxed);
            }
            head.descriptors.store(size.get(), Relaxed);
            let base = PackedPosition { slot: base.slot % size.get(), ..base };
            for (index, wrap) in
                [(&head.used_index, &head.used_wrap), (&head.old_used_index, &head.old_used_wrap)]
            {
                index.store(base.slot, Relaxed);
                wrap.store(base.wrap.into(), Relaxed);
            }
            head.version.store(VERSION, Release);
            region.next_used = base;
            return Ok(region);
        }
        check_header(version, descriptors, size)?;
        region.recover(flags_at)?;
        Ok(region)
    }

    /// vhost-user, "Inflight I/O tracking", packed virtqueue, "When reconnecting".
    fn recover(&mut self, flags_at: impl Fn(u16) -> u16) -> Result<(), InFlightError> {
        let size = self.states.len() as u16;
        let head = &self.header[0];
        let old = PackedPosition {
            slot: head.old_used_index.load(Relaxed),
            wrap: head.old_used_wrap.load(Relaxed) != 0,
        };
        let new =
            PackedPosition { slot: head.used_index.load(Relaxed), wrap: head.used_wrap.load(Relaxed) != 0 };
        for (field, cursor) in [("old_used_idx", old), ("used_idx", new)] {
            if cursor.slot >= size {
                return Err(InFlightError::Entry { entry: 0, field, value: cursor.slot.into() });
            }
        }
        let published = old != new && {
            let wrap_bits = flags_at(old.slot) & crate::packed::flags::WRAP_BITS;
            wrap_bits != crate::packed::flags::available(old.wrap)
        };
        let free = if published { &head.free_head } else { &head.old_free_head }.load(Relaxed);
        self.next_used = if published { new } else { old };
        self.free_head = free;
        self.store_committed();
        // The free list, checked: inside the region and without a loop.
        let mut is_free = vec![false; usize::from(size)];
        let (mut at, mut previous) = (free, None::<u16>);
        while at < size && !is_free[usize::from(at)] {
            is_free[usize::from(at)] = true;
            self.states[usize::from(at)].in_flight.store(0, Relaxed);
            if let Some(previous) = previous.replace(at) {
                self.next_free[usize::from(previous)] = at;
            }
            at = self.states[usize::from(at)].next.load(Relaxed);
        }
        if let Some(last) = previous {
            self.next_free[usize::from(last)] = size;
        }
        let mut open: Vec<(u64, u16)> = (0..size)
            .filter(|&i| !is_free[usize::from(i)])
            .filter(|&i| self.states[usize::from(i)].in_flight.load(Relaxed) != 0)
            .map(|i| (self.states[usize::from(i)].counter.load(Relaxed), i))
            .collect();
        open.sort_unstable();
        self.counter = open.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        let mut slot = self.next_used;
        for (_, entry) in open {
            let stored = self.load(entry, &mut is_free, slot.slot)?;
            slot = slot.forward(stored.descriptors.len() as u16, size);
            self.resubmit.push_back((entry, stored));
        }
        Ok(())
    }

    /// Reads a chain from its head entry; every entry may be claimed once.
    fn load(&mut self, head: u16, claimed: &mut [bool], slot: u16) -> Result<StoredBuffer, InFlightError> {
        let bad = |entry, field, value: u16| InFlightError::Entry { entry, field, value: value.into() };
        let state = &self.states[usize::from(head)];
        let (count, last) = (state.count.load(Relaxed), state.last.load(Relaxed));
        let mut descriptors = Vec::new();
        let (mut at, mut id) = (head, 0);
        for i in 0..count {
            match claimed.get_mut(usize::from(at)) {
                Some(claimed) if !*claimed => *claimed = true,
                _ => return Err(bad(head, "next", at)),
            }
            let state = &self.states[usize::from(at)];
            descriptors.push((
                state.address.load(Relaxed),
                state.len.load(Relaxed),
                state.flags.load(Relaxed),
            ));
            id = state.id.load(Relaxed);
            if i + 1 == count && at != last {
                return Err(bad(head, "last", last));
            }
            // Links of chains are those of the free list that they were taken from; keep our own copy.
            let next = state.next.load(Relaxed);
            self.next_free[usize::from(at)] = next;
            at = next;
        }
        let known = self.entries.get_mut(usize::from(id));
        match known {
            Some(entry) if entry.is_none() && count > 0 => *entry = Some((head, last)),
            _ => return Err(bad(head, "id", id)),
        }
        self.was_in_flight[usize::from(id)] = true;
        Ok(StoredBuffer { id, slot, descriptors })
    }

    pub(crate) fn next_used(&self) -> PackedPosition {
        self.next_used
    }

    /// The number of ring slots of the chains to be popped again.
    pub fn resubmit_slots(&self) -> u16 {
        self.resubmit.iter().map(|(_, buffer)| buffer.descriptors.len() as u16).sum()
    }

    pub(crate) fn has_resubmit(&self) -> bool {
        !self.resubmit.is_empty()
    }

    pub(crate) fn peek_resubmit<T>(&self, use_it: impl FnOnce(u16, &StoredBuffer) -> T) -> Option<T> {
        self.resubmit.front().map(|(entry, buffer)| use_it(*entry, buffer))
    }

    pub(crate) fn resubmitted(&mut self) {
        self.resubmit.pop_front();
    }

    /// The steps of "When receiving available buffers from the driver" for one chain, with its descriptors in ring
    /// order.
    pub(crate) fn pop(&mut self, id: u16, descriptors: impl Iterator<Item = (u64, u32, u16)>) {
        let head = self.free_head;
        let Some(first) = self.states.get(usize::from(head)) else { return };
        first.count.store(0, Relaxed);
        first.counter.store(self.counter, Relaxed);
        self.counter = self.counter.wrapping_add(1);
        let (mut last, mut count) = (head, 0);
        for (address, len, flags) in descriptors {
            // No more slots are ever outstanding than entries exist.
            let Some(state) = self.states.get(usize::from(self.free_head)) else { break };
            state.address.store(address, Relaxed);
            state.len.store(len, Relaxed);
            state.flags.store(flags, Relaxed);
            state.id.store(id, Relaxed);
            last = self.free_head;
            count += 1;
            self.free_head = self.next_free[usize::from(self.free_head)];
        }
        first.last.store(last, Relaxed);
        first.count.store(count, Relaxed);
        first.in_flight.store(1, Release);
        self.entries[usize::from(id)] = Some((head, last));
        self.was_in_flight[usize::from(id)] = false;
        let header = &self.header[0];
        header.free_head.store(self.free_head, Release);
        header.old_free_head.store(self.free_head, Release);
    }

    fn free(&mut self, id: u16) -> Option<u16> {
        let (head, last) = self.entries[usize::from(id)].take()?;
        self.next_free[usize::from(last)] = self.free_head;
        self.states[usize::from(last)].next.store(self.free_head, Relaxed);
        self.free_head = head;
        self.header[0].free_head.store(head, Release);
        Some(head)
    }

    /// Not possible for a chain that was in flight when the region was opened, because its slots may hold something
    /// else by now.
    pub(crate) fn rewind(&mut self, mut ids: impl DoubleEndedIterator<Item = u16> + Clone) -> bool {
        if ids.clone().any(|id| self.was_in_flight[usize::from(id)]) {
            return false;
        }
        while let Some(id) = ids.next_back() {
            if let Some(head) = self.free(id) {
                self.states[usize::from(head)].in_flight.store(0, Release);
            }
        }
        self.header[0].old_free_head.store(self.free_head, Release);
        true
    }

    /// The steps of "When supplying used buffers to the driver", up to the point where the flags are published.
    /// `used` is the device's cursor after the batch.
    pub(crate) fn adding_used(&mut self, ids: impl Iterator<Item = u16>, used: PackedPosition) {
        self.batch.clear();
        for id in ids {
            if let Some(head) = self.free(id) {
                self.batch.push(head);
            }
        }
        self.next_used = used;
        let header = &self.header[0];
        header.used_index.store(used.slot, Relaxed);
        header.used_wrap.store(used.wrap.into(), Release);
    }

    /// The remaining steps, after the flags are published.
    pub(crate) fn added_used(&mut self) {
        for head in self.batch.drain(..) {
            self.states[usize::from(head)].in_flight.store(0, Release);
        }
        self.store_committed();
    }

    fn store_committed(&self) {
        let header = &self.header[0];
        header.free_head.store(self.free_head, Relaxed);
        header.used_index.store(self.next_used.slot, Relaxed);
        header.used_wrap.store(self.next_used.wrap.into(), Relaxed);
        header.old_free_head.store(self.free_head, Release);
        header.old_used_index.store(self.next_used.slot, Release);
        header.old_used_wrap.store(self.next_used.wrap.into(), Release);
    }
}
