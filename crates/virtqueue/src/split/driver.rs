//! The driver half of a split ring: makes buffers available and reclaims used ones.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use super::flags::{INDIRECT, NEXT, WRITE};
use super::ring::{AVAILABLE_ENTRIES, AVAILABLE_FLAGS, AVAILABLE_INDEX, USED_FLAGS, USED_INDEX};
use super::{NO_NOTIFICATION, SplitRing};
use crate::atomics::{Atomics, Word};
use crate::driver::{Buffer, Direction, DriverQueue, FreeIds, IndirectTables, Request, Slot, Used, broken};
use crate::error::{Malformed, Place, RingError};
use crate::position::event_passed;
use crate::{FeatureSet, Position, QueueSize};

/// A running split ring as the driver sees it.
pub struct SplitDriver<R, F> {
    ring: R,
    size: QueueSize,
    /// All state of buffers, kept in this process's memory. No link is read from memory that the device can write.
    slots: Vec<Slot>,
    free: FreeDescriptors<F>,
    next_available: u16,
    next_used: u16,
    /// The number of buffers that the device has.
    outstanding: u16,
    /// With IN_ORDER: the head of the oldest buffer that the device has.
    oldest: u16,
    kicked_at: u16,
    broken: Option<RingError>,
    indirect: Option<IndirectTables>,
    features: PhantomData<F>,
}

/// Descriptors that no buffer has. With IN_ORDER they are taken in ring order (§2.7.9), otherwise in any.
struct FreeDescriptors<F> {
    count: u16,
    /// The free ids. Not used with IN_ORDER.
    ids: FreeIds,
    /// With IN_ORDER: the first free descriptor.
    first: u16,
    mask: u16,
    features: PhantomData<F>,
}

impl<F: FeatureSet> FreeDescriptors<F> {
    fn all(size: QueueSize) -> Self {
        let count = size.get();
        let ids = if F::IN_ORDER { FreeIds::default() } else { FreeIds::all(count) };
        FreeDescriptors { count, ids, first: 0, mask: count - 1, features: PhantomData }
    }

    /// The next ones, in the order in which they are taken; the caller knows that there are so many.
    #[inline(always)]
    fn next(&self, count: usize) -> impl Iterator<Item = u16> {
        let mut ids = self.ids.next(if F::IN_ORDER { 0 } else { count });
        (0..count as u16).map(move |i| {
            if F::IN_ORDER { self.first.wrapping_add(i) & self.mask } else { ids.next().unwrap_or_default() }
        })
    }

    /// Takes those.
    #[inline(always)]
    fn take(&mut self, count: usize) {
        if F::IN_ORDER {
            self.first = self.first.wrapping_add(count as u16) & self.mask;
        } else {
            self.ids.take(count);
        }
        self.count -= count as u16;
    }

    /// Not with IN_ORDER.
    #[inline(always)]
    fn give_back(&mut self, id: u16) {
        self.ids.give_back(id);
        self.count += 1;
    }
}

impl<R: SplitRing, F: FeatureSet> SplitDriver<R, F> {
    /// A queue over zeroed rings. With INDIRECT_DESC, `indirect` is the memory for tables.
    pub fn new(ring: R, size: QueueSize, indirect: Option<IndirectTables>) -> Self {
        let mut queue = SplitDriver {
            ring,
            size,
            slots: Vec::new(),
            free: FreeDescriptors::all(size),
            next_available: 0,
            next_used: 0,
            outstanding: 0,
            oldest: 0,
            kicked_at: 0,
            broken: None,
            indirect: indirect.filter(|_| F::INDIRECT),
            features: PhantomData,
        };
        queue.start();
        queue
    }

    fn mask(&self) -> u16 {
        self.size.get() - 1
    }

    fn start(&mut self) {
        self.slots = vec![Slot::default(); self.size.get().into()];
        (self.free, self.outstanding, self.oldest) = (FreeDescriptors::all(self.size), 0, 0);
        (self.next_available, self.next_used, self.kicked_at) = (0, 0, 0);
        self.broken = None;
        self.ring.available()[AVAILABLE_FLAGS].store(0, Relaxed);
        R::Atomics::publish(&self.ring.available()[AVAILABLE_INDEX], 0);
    }

    /// Descriptors that a request takes.
    fn needs(&self, request: &Request<'_>) -> usize {
        match (&self.indirect, request.pieces()) {
            (Some(tables), n) if n > 1 && n <= tables.entries() => 1,
            (_, n) => n,
        }
    }

    /// Writes one request's descriptors and available entry.
    fn write_request(&mut self, request: &Request<'_>, needs: usize) {
        let mut ids = self.free.next(needs).peekable();
        let head = ids.peek().copied().unwrap_or_default();
        let table = self.ring.descriptors();
        if needs == 1 && request.pieces() > 1 {
            let descriptors = request.each().enumerate().map(|(i, (piece, write))| {
                let more = i + 1 < request.pieces();
                let flags = if write { WRITE } else { 0 } | if more { NEXT } else { 0 };
                let link = if more { i as u64 + 1 } else { 0 };
                (piece.address, u64::from(piece.len) | u64::from(flags) << 32 | link << 48)
            });
            // Each descriptor has a table of its own: the table of `head` is free if `head` is.
            let (address, len) =
                self.indirect.as_ref().map_or((0, 0), |tables| tables.write(head, descriptors));
            table[usize::from(head)].write(address, len, INDIRECT, 0);
        } else {
            for (piece, write) in request.each() {
                let Some(at) = ids.next() else { break };
                let next = ids.peek().copied();
                let flags = if write { WRITE } else { 0 } | if next.is_some() { NEXT } else { 0 };
                let next = next.unwrap_or_default();
                table[usize::from(at)].write(piece.address, piece.len, flags, next);
                self.slots[usize::from(at)].next = next;
            }
        }
        drop(ids);
        self.free.take(needs);
        let slot = &mut self.slots[usize::from(head)];
        (slot.cookie, slot.writable, slot.slots) = (request.cookie, request.writable_bytes(), needs as u16);
        let entry = usize::from(self.next_available & self.mask());
        self.ring.available()[AVAILABLE_ENTRIES + entry].store(head, Relaxed);
        self.next_available = self.next_available.wrapping_add(1);
        self.outstanding += 1;
    }

    /// Release: pairs with the device's acquire of the index; descriptors and entries are visible before
    /// it (§2.7.13.3). One store for the whole burst.
    #[inline(always)]
    fn publish(&self) {
        R::Atomics::publish(&self.ring.available()[AVAILABLE_INDEX], self.next_available);
    }

    /// Takes the buffer with this head back.
    #[inline(always)]
    fn release(&mut self, head: u16) -> Slot {
        let slot = self.slots[usize::from(head)];
        self.slots[usize::from(head)].slots = 0;
        let mut at = head;
        for _ in 0..slot.slots {
            self.free.give_back(at);
            at = self.slots[usize::from(at)].next;
        }
        self.outstanding -= 1;
        slot
    }

    fn stop<T>(&mut self, rule: Malformed, place: Place, value: u64) -> Result<T, RingError> {
        let error = broken(rule, place, value);
        self.broken = Some(error);
        Err(error)
    }

    /// Used entries of buffers with one descriptor, up to `count`; returns how many came before one that
    /// takes more than this, or is wrong.
    #[inline(always)]
    fn reclaim_singles(&mut self, used: &mut Vec<Used>, count: u16) -> u16 {
        let (ring, mask) = (self.ring.used(), self.mask());
        let mut done = 0;
        while done < count {
            let (id, written) = ring[usize::from(self.next_used.wrapping_add(done) & mask)].read();
            let Some(slot) = self.slots.get_mut(id as usize) else { break };
            if slot.slots != 1 || written > slot.writable {
                break;
            }
            slot.slots = 0;
            self.free.give_back(id as u16);
            used.push(Used { cookie: slot.cookie, written });
            done += 1;
        }
        self.outstanding -= done;
        self.next_used = self.next_used.wrapping_add(done);
        done
    }

    /// One used entry, which with IN_ORDER may stand for several buffers.
    #[inline(always)]
    fn reclaim_entry(&mut self, used: &mut Vec<Used>, ready: u16) -> Result<u16, RingError> {
        let entry = self.next_used & self.mask();
        let (id, written) = self.ring.used()[usize::from(entry)].read();
        let place = Place::Used(entry);
        let Some(slot) = self.slots.get(id as usize).filter(|slot| slot.slots > 0) else {
            return self.stop(Malformed::NotOutstanding, place, id.into());
        };
        if written > slot.writable {
            return self.stop(Malformed::UsedLengthTooLong, place, written.into());
        }
        if !F::IN_ORDER {
            let slot = self.release(id as u16);
            used.push(Used { cookie: slot.cookie, written });
            self.next_used = self.next_used.wrapping_add(1);
            return Ok(1);
        }
        match self.reclaim_run(used, id, written, ready) {
            Some(count) => Ok(count),
            None => self.stop(Malformed::NotOutstanding, place, id.into()),
        }
    }

    /// All buffers from the oldest to `id`, at most `most`; the skipped ones count as written in full (§2.7.9).
    /// `None` if `id` is not among them.
    #[inline(always)]
    fn reclaim_run(&mut self, used: &mut Vec<Used>, id: u32, written: u32, most: u16) -> Option<u16> {
        let mask = self.mask();
        let (mut oldest, mut descriptors, mut count) = (self.oldest, 0, 0);
        let mut found = false;
        while !found && count < most {
            let slot = &mut self.slots[usize::from(oldest)];
            let slots = std::mem::take(&mut slot.slots);
            found = u32::from(oldest) == id;
            used.push(Used { cookie: slot.cookie, written: if found { written } else { slot.writable } });
            oldest = oldest.wrapping_add(slots) & mask;
            descriptors += slots;
            count += 1;
        }
        self.oldest = oldest;
        self.free.count += descriptors;
        self.outstanding -= count;
        self.next_used = self.next_used.wrapping_add(count);
        found.then_some(count)
    }
}

impl<R, F> DriverQueue for SplitDriver<R, F>
where
    R: SplitRing + Send,
    F: FeatureSet,
{
    fn size(&self) -> QueueSize {
        self.size
    }

    fn free_descriptors(&self) -> u16 {
        self.free.count
    }

    fn add(&mut self, buffers: &[Buffer], direction: Direction) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let count = buffers.len().min(self.free.count.into());
        let mask = self.mask();
        let (flags, write) = if direction == Direction::FromDevice { (WRITE, true) } else { (0, false) };
        let (table, entries) = (self.ring.descriptors(), &self.ring.available()[AVAILABLE_ENTRIES..]);
        let mut entry = self.next_available;
        for (buffer, head) in buffers.iter().zip(self.free.next(count)) {
            table[usize::from(head)].write(buffer.address, buffer.len, flags, 0);
            let writable = if write { buffer.len } else { 0 };
            self.slots[usize::from(head)] = Slot { cookie: buffer.cookie, writable, slots: 1, next: 0 };
            entries[usize::from(entry & mask)].store(head, Relaxed);
            entry = entry.wrapping_add(1);
        }
        self.free.take(count);
        self.outstanding += count as u16;
        self.next_available = self.next_available.wrapping_add(count as u16);
        if count > 0 {
            self.publish();
        }
        count
    }

    fn add_requests(&mut self, requests: &[Request<'_>]) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let mut added = 0;
        for request in requests {
            let needs = self.needs(request);
            if needs == 0 || needs > self.free.count.into() {
                break;
            }
            self.write_request(request, needs);
            added += 1;
        }
        if added > 0 {
            self.publish();
        }
        added
    }

    fn reclaim(&mut self, used: &mut Vec<Used>, max: usize) -> Result<usize, RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        // Acquire: pairs with the device's release of the index; the entries before it, and what the
        // device wrote to buffers, are visible now (§2.7.8.2).
        let index = R::Atomics::observe(&self.ring.used_header()[USED_INDEX]);
        let mut ready = index.wrapping_sub(self.next_used);
        if ready > self.outstanding {
            return self.stop(Malformed::UsedTooFarAhead, Place::UsedIndex, index.into());
        }
        let before = used.len();
        if !F::IN_ORDER {
            let count = usize::from(ready).min(max) as u16;
            ready -= self.reclaim_singles(used, count);
        }
        while ready > 0 && used.len() - before < max {
            match self.reclaim_entry(used, ready) {
                Ok(count) => ready -= count,
                // The entries before are good. The error comes with the next call.
                Err(_) if used.len() > before => break,
                Err(error) => return Err(error),
            }
        }
        Ok(used.len() - before)
    }

    fn needs_kick(&mut self) -> bool {
        let old = std::mem::replace(&mut self.kicked_at, self.next_available);
        if old == self.next_available {
            return false;
        }
        // Index published before, suppression read after: pairs with the device's barrier between arming
        // and looking at the index (§2.7.10.1).
        R::Atomics::full_barrier();
        if F::EVENT_IDX {
            event_passed(self.ring.available_event().load(Relaxed), self.next_available, old)
        } else {
            self.ring.used_header()[USED_FLAGS].load(Relaxed) & NO_NOTIFICATION == 0
        }
    }

    fn enable_calls(&mut self) -> bool {
        let available = self.ring.available();
        if F::EVENT_IDX {
            available[AVAILABLE_ENTRIES + usize::from(self.size.get())].store(self.next_used, Relaxed);
        } else {
            available[AVAILABLE_FLAGS].store(0, Relaxed);
        }
        // Armed before, index read after: pairs with the device's barrier between publishing and reading
        // the suppression (§2.7.7.2).
        R::Atomics::full_barrier();
        R::Atomics::observe(&self.ring.used_header()[USED_INDEX]) != self.next_used
    }

    fn disable_calls(&mut self) {
        let available = self.ring.available();
        if F::EVENT_IDX {
            // Just behind: nothing passes it for a whole lap of the index.
            let event = AVAILABLE_ENTRIES + usize::from(self.size.get());
            available[event].store(self.next_used.wrapping_sub(1), Relaxed);
        } else {
            available[AVAILABLE_FLAGS].store(NO_NOTIFICATION, Relaxed);
        }
    }

    fn position(&self) -> Position {
        Position::Split { next_available: self.next_available, next_used: self.next_used }
    }

    fn notification_data(&self, queue: u16) -> u32 {
        u32::from(queue) | u32::from(self.next_available) << 16
    }

    fn reset(&mut self) -> Vec<u32> {
        let open = self.slots.iter().filter(|slot| slot.slots > 0).map(|slot| slot.cookie).collect();
        self.start();
        open
    }
}
