//! The driver half of a packed ring.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use super::flags::{self, INDIRECT, NEXT, WRAP_BITS, WRITE};
use super::ring::{LINE, PackedRing};
use crate::PackedPosition;
use crate::atomics::{Atomics, Word};
use crate::driver::{Buffer, Direction, DriverQueue, FreeIds, IndirectTables, Request, Slot, Used, broken};
use crate::error::{Malformed, Place, RingError};
use crate::{FeatureSet, Position, QueueSize};

/// A running packed ring as the driver sees it.
pub struct PackedDriver<R, F> {
    ring: R,
    size: QueueSize,
    /// The buffers, by id.
    slots: Vec<Slot>,
    /// The free ids. Not used with IN_ORDER, where a buffer's id is its first slot.
    free_ids: FreeIds,
    free: u16,
    next_available: PackedPosition,
    next_used: PackedPosition,
    kicked_at: PackedPosition,
    broken: Option<RingError>,
    indirect: Option<IndirectTables>,
    features: PhantomData<F>,
}

impl<R: PackedRing, F: FeatureSet> PackedDriver<R, F> {
    /// A queue over a zeroed ring. With INDIRECT_DESC, `indirect` is the memory for tables.
    pub fn new(ring: R, size: QueueSize, indirect: Option<IndirectTables>) -> Self {
        let mut queue = PackedDriver {
            ring,
            size,
            slots: Vec::new(),
            free_ids: FreeIds::default(),
            free: 0,
            next_available: PackedPosition::START,
            next_used: PackedPosition::START,
            kicked_at: PackedPosition::START,
            broken: None,
            indirect: indirect.filter(|_| F::INDIRECT),
            features: PhantomData,
        };
        queue.start();
        queue
    }

    fn start(&mut self) {
        let size = self.size.get();
        self.slots = vec![Slot::default(); size.into()];
        self.free_ids = if F::IN_ORDER { FreeIds::default() } else { FreeIds::all(size) };
        self.free = size;
        (self.next_available, self.next_used, self.kicked_at) =
            (PackedPosition::START, PackedPosition::START, PackedPosition::START);
        self.broken = None;
        // Neither available nor used in the first pass (§2.8.1).
        for descriptor in self.ring.descriptors() {
            descriptor.flags.store(0, Relaxed);
        }
        self.ring.driver_event().arm(PackedPosition::START, false);
    }

    fn needs(&self, request: &Request<'_>) -> usize {
        match (&self.indirect, request.pieces()) {
            (Some(tables), n) if n > 1 && n <= tables.entries() => 1,
            (_, n) => n,
        }
    }

    /// Writes one request; the flags of the burst's very first slot are handed out, not stored.
    fn write_request(&mut self, request: &Request<'_>, needs: usize, first: &mut Option<(u16, u16)>) {
        let (ring, size) = (self.ring.descriptors(), self.size.get());
        let mut at = self.next_available;
        let (cookie, writable) = (request.cookie, request.writable_bytes());
        let id = if F::IN_ORDER {
            at.slot
        } else {
            // There is one: a buffer takes one id and at least one slot.
            let id = self.free_ids.next(1).next().unwrap_or_default();
            self.free_ids.take(1);
            id
        };
        self.slots[usize::from(id)] = Slot { cookie, writable, slots: needs as u16, next: 0 };
        let mut put = |address, len, flags: u16| {
            let slot = &ring[usize::from(at.slot)];
            slot.write(address, len, id);
            let flags = flags | flags::available(at.wrap);
            if first.is_none() {
                *first = Some((at.slot, flags));
            } else {
                // Relaxed: the device gets here only through the first slot's flags, published last.
                slot.flags.store(flags, Relaxed);
            }
            at = at.forward(1, size);
        };
        if needs == 1 && request.pieces() > 1 {
            let descriptors = request.each().map(|(piece, write)| {
                let flags = if write { WRITE } else { 0 };
                (piece.address, u64::from(piece.len) | u64::from(flags) << 48)
            });
            let (address, len) =
                self.indirect.as_ref().map_or((0, 0), |tables| tables.write(id, descriptors));
            put(address, len, INDIRECT);
        } else {
            for (i, (piece, write)) in request.each().enumerate() {
                let next = if i + 1 < needs { NEXT } else { 0 };
                put(piece.address, piece.len, next | if write { WRITE } else { 0 });
            }
        }
        self.next_available = at;
        self.free -= needs as u16;
    }

    /// Release: pairs with the device's acquire of these flags; all descriptors of the burst are visible
    /// before them (§2.8.21.1). One publishing store for the whole burst.
    #[inline(always)]
    fn publish(&self, (slot, flags): (u16, u16)) {
        R::Atomics::publish(&self.ring.descriptors()[usize::from(slot)].flags, flags);
    }

    fn stop<T>(&mut self, rule: Malformed, place: Place, value: u64) -> Result<T, RingError> {
        let error = broken(rule, place, value);
        self.broken = Some(error);
        Err(error)
    }

    /// One used descriptor, which with IN_ORDER may stand for several buffers; 0 if there is none.
    #[inline(always)]
    fn reclaim_entry(&mut self, used: &mut Vec<Used>) -> Result<usize, RingError> {
        let (ring, size) = (self.ring.descriptors(), self.size.get());
        let slot = &ring[usize::from(self.next_used.slot)];
        // Acquire: pairs with the device's release of these flags, or of those of the burst's first slot;
        // id, length and what the device wrote to the buffer are visible now (§2.8.9).
        let flags = R::Atomics::observe(&slot.flags);
        if flags & WRAP_BITS != flags::used(self.next_used.wrap) {
            return Ok(0);
        }
        if self.free == size {
            // Nothing is outstanding. A fresh ring in its second pass looks the same, so this is no error.
            return Ok(0);
        }
        let place = Place::Slot(self.next_used.slot);
        let (id, written) = (slot.id.load(Relaxed), slot.len.load(Relaxed));
        let written = if flags & WRITE != 0 { written } else { 0 };
        let Some(known) = self.slots.get(usize::from(id)).filter(|slot| slot.slots > 0).copied() else {
            return self.stop(Malformed::NotOutstanding, place, id.into());
        };
        if written > known.writable {
            return self.stop(Malformed::UsedLengthTooLong, place, written.into());
        }
        if !F::IN_ORDER {
            self.slots[usize::from(id)].slots = 0;
            self.free_ids.give_back(id);
            self.free += known.slots;
            self.next_used = self.next_used.forward(known.slots, size);
            used.push(Used { cookie: known.cookie, written });
            return Ok(1);
        }
        match self.reclaim_run(used, id, written) {
            Some(count) => Ok(count),
            None => self.stop(Malformed::NotOutstanding, place, id.into()),
        }
    }

    /// All buffers from the oldest, which starts at this slot, to the one named; those skipped count as written
    /// in full (§2.8.8). `None` if `id` is not among them.
    #[inline(always)]
    fn reclaim_run(&mut self, used: &mut Vec<Used>, id: u16, written: u32) -> Option<usize> {
        let size = self.size.get();
        let (mut at, mut descriptors, mut count) = (self.next_used, 0, 0);
        let mut found = false;
        while !found {
            let slot = &mut self.slots[usize::from(at.slot)];
            let slots = std::mem::take(&mut slot.slots);
            if slots == 0 {
                break;
            }
            found = at.slot == id;
            used.push(Used { cookie: slot.cookie, written: if found { written } else { slot.writable } });
            at = at.forward(slots, size);
            descriptors += slots;
            count += 1;
        }
        self.next_used = at;
        self.free += descriptors;
        found.then_some(count)
    }

    /// Appends used buffers of one descriptor each: at most `max`, up to the ring's end, and up to the first descriptor
    /// that is not used yet, is wrong, stands for several buffers, or has more than one slot.
    #[inline(always)]
    fn reclaim_singles(&mut self, used: &mut Vec<Used>, max: usize) {
        let (at, size) = (self.next_used, self.size.get());
        let most = max.min((size - self.free).into());
        let mut done = 0;
        for (descriptor, slot_of_it) in
            self.ring.descriptors()[at.slot.into()..].iter().zip(at.slot..).take(most)
        {
            // Acquire: as in `reclaim_entry`.
            let flags = R::Atomics::observe(&descriptor.flags);
            if flags & WRAP_BITS != flags::used(at.wrap) {
                break;
            }
            if slot_of_it.is_multiple_of(LINE) {
                descriptor.prefetch_ahead();
            }
            let (id, written) = (descriptor.id.load(Relaxed), descriptor.len.load(Relaxed));
            let written = if flags & WRITE != 0 { written } else { 0 };
            let Some(slot) = self.slots.get_mut(usize::from(id)) else { break };
            let others = F::IN_ORDER && id != slot_of_it;
            if slot.slots != 1 || written > slot.writable || others {
                break;
            }
            slot.slots = 0;
            if !F::IN_ORDER {
                self.free_ids.give_back(id);
            }
            used.push(Used { cookie: slot.cookie, written });
            done += 1;
        }
        self.next_used = at.forward(done, size);
        self.free += done;
    }
}

impl<R, F> DriverQueue for PackedDriver<R, F>
where
    R: PackedRing + Send,
    F: FeatureSet,
{
    fn size(&self) -> QueueSize {
        self.size
    }

    fn free_descriptors(&self) -> u16 {
        self.free
    }

    fn add(&mut self, buffers: &[Buffer], direction: Direction) -> usize {
        let count = buffers.len().min(self.free.into());
        if self.broken.is_some() || count == 0 {
            return 0;
        }
        let (ring, size) = (self.ring.descriptors(), self.size.get());
        let (write, mask) = if direction == Direction::FromDevice { (WRITE, u32::MAX) } else { (0, 0) };
        let first = self.next_available;
        // From the last to the first: the device polls the first one's line, and so does not come and take it while
        // it is being written.
        let next = first.forward(count as u16, size);
        let mut at = next;
        let mut ids = self.free_ids.next(if F::IN_ORDER { 0 } else { count });
        for (i, buffer) in buffers[..count].iter().enumerate().rev() {
            at = at.back(1, size);
            let id = if F::IN_ORDER { at.slot } else { ids.next().unwrap_or_default() };
            let (cookie, writable) = (buffer.cookie, buffer.len & mask);
            self.slots[usize::from(id)] = Slot { cookie, writable, slots: 1, next: 0 };
            let slot = &ring[usize::from(at.slot)];
            slot.write(buffer.address, buffer.len, id);
            if i > 0 {
                // Relaxed: the device gets here only through the first slot's flags, published last.
                slot.flags.store(write | flags::available(at.wrap), Relaxed);
            }
        }
        if !F::IN_ORDER {
            self.free_ids.take(count);
        }
        self.next_available = next;
        self.free -= count as u16;
        self.publish((first.slot, write | flags::available(first.wrap)));
        count
    }

    fn add_requests(&mut self, requests: &[Request<'_>]) -> usize {
        if self.broken.is_some() {
            return 0;
        }
        let (mut added, mut first) = (0, None);
        for request in requests {
            let needs = self.needs(request);
            if needs == 0 || needs > self.free.into() {
                break;
            }
            self.write_request(request, needs, &mut first);
            added += 1;
        }
        if let Some(first) = first {
            self.publish(first);
        }
        added
    }

    fn reclaim(&mut self, used: &mut Vec<Used>, max: usize) -> Result<usize, RingError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let before = used.len();
        self.reclaim_singles(used, max);
        if self.next_used.slot == 0 {
            // Beyond the ring's end: its next pass.
            self.reclaim_singles(used, max - (used.len() - before));
        }
        while used.len() - before < max {
            match self.reclaim_entry(used) {
                Ok(0) => break,
                Ok(_) => {}
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
        // Flags published before, suppression read after: pairs with the device's barrier between arming
        // and looking at the ring (§2.8.21.3).
        R::Atomics::full_barrier();
        self.ring.device_event().wants(old, self.next_available, self.size.get(), F::EVENT_IDX)
    }

    fn enable_calls(&mut self) -> bool {
        self.ring.driver_event().arm(self.next_used, F::EVENT_IDX);
        // Armed before, ring read after: pairs with the device's barrier between publishing and reading
        // the suppression (§2.8.10.1.1).
        R::Atomics::full_barrier();
        let slot = &self.ring.descriptors()[usize::from(self.next_used.slot)];
        let flags = R::Atomics::observe(&slot.flags);
        self.free < self.size.get() && flags & WRAP_BITS == flags::used(self.next_used.wrap)
    }

    fn disable_calls(&mut self) {
        self.ring.driver_event().disarm();
    }

    fn position(&self) -> Position {
        Position::Packed { next_available: self.next_available, next_used: self.next_used }
    }

    fn notification_data(&self, queue: u16) -> u32 {
        u32::from(queue) | u32::from(self.next_available.to_bits()) << 16
    }

    fn reset(&mut self) -> Vec<u32> {
        let open = self.slots.iter().filter(|slot| slot.slots > 0).map(|slot| slot.cookie).collect();
        self.start();
        open
    }
}
