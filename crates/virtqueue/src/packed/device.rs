//! The device half of a packed ring.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Demotion, SgBuilder, Translator};

use super::flags::{self, INDIRECT, NEXT, WRAP_BITS, WRITE};
use super::ring::{LINE, PackedDescriptor, PackedRing};
use super::walk::{prefetch_tables, walk, walk_stored};
use crate::PackedPosition;
use crate::atomics::{Atomics, Word};
use crate::chain::{Chain, Singles, batches};
use crate::chains::Chains;
use crate::device::{Device, DeviceParts, DeviceRing, Popped, UsedLog};
use crate::error::{PopError, RingError};
use crate::inflight::PackedInFlight;
use crate::work::Work;
use crate::{Burst, FeatureSet, IndirectFlags, Position, QueueSize, tuning};

/// A running packed ring as the device sees it.
pub type PackedDevice<R, F> = Device<PackedDeviceRing<R, F>>;

/// The part of a packed ring's device half that differs from a split ring's.
pub struct PackedDeviceRing<R, F> {
    ring: R,
    size: QueueSize,
    next_available: PackedPosition,
    next_used: PackedPosition,
    /// Slots that are popped and not yet used.
    outstanding: u16,
    /// Whether the last walked chain was only writable. In most queues either all chains are, or none.
    writable: bool,
    in_flight: Option<PackedInFlight>,
    indirect_flags: IndirectFlags,
    features: PhantomData<F>,
}

impl<R: PackedRing + Send, F: FeatureSet> PackedDevice<R, F> {
    /// A queue over a ring whose memory has been found. Nothing in the ring is trusted yet.
    pub fn new(parts: DeviceParts<R, PackedInFlight>) -> Self {
        let DeviceParts { ring, size, position, translator, log, in_flight } = parts;
        let (mut next_available, mut next_used) = match position {
            Position::Packed { next_available, next_used } => (next_available, next_used),
            Position::Split { .. } => (PackedPosition::START, PackedPosition::START),
        };
        // A base from the wire may name a slot that the ring does not have.
        next_available.slot %= size.get();
        next_used.slot %= size.get();
        if let Some(in_flight) = &in_flight {
            next_used = in_flight.next_used();
            let again = in_flight.resubmit_slots();
            next_available = next_used.forward(again, size.get());
            take_back(&ring, next_used, again, size.get());
        }
        // A ring that has gone round once may look like a new one. So the driver counts as not called for one lap.
        let is_new = next_available == PackedPosition::START && next_used == PackedPosition::START;
        let ring = PackedDeviceRing {
            ring,
            size,
            next_available,
            next_used,
            outstanding: distance(next_used, next_available, size.get()),
            writable: false,
            in_flight,
            indirect_flags: IndirectFlags::Trusted,
            features: PhantomData,
        };
        Device::of_ring(ring, translator, log, is_new.then_some(size.get()))
    }

    /// Sets how the flags in indirect tables are treated.
    pub fn with_indirect_flags(mut self, flags: IndirectFlags) -> Self {
        self.ring.indirect_flags = flags;
        self
    }
}

/// A device that ended while it gave a burst back has written used flags behind a first slot that it did not come to.
/// The driver has not seen them, and would when it comes there by what is given back next.
fn take_back<R: PackedRing>(ring: &R, from: PackedPosition, slots: u16, size: u16) {
    for slot in 0..slots {
        let at = from.forward(slot, size);
        let flags = &ring.descriptors()[usize::from(at.slot)].flags;
        if R::Atomics::observe(flags) & flags::WRAP_BITS == flags::used(at.wrap) {
            R::Atomics::publish(flags, flags::available(at.wrap));
        }
    }
}

impl<R: PackedRing, F: FeatureSet> PackedDeviceRing<R, F> {
    /// The last `popped` chains of the burst are in flight now.
    #[cold]
    #[inline(never)]
    fn record_popped(&mut self, burst: &Burst, popped: usize) {
        let Some(in_flight) = &mut self.in_flight else { return };
        let (ring, size) = (self.ring.descriptors(), usize::from(self.size.get()));
        for chain in &burst.chains[burst.chains.len() - popped..] {
            let slots = (0..chain.slots).map(|i| {
                let slot = &ring[(usize::from(chain.popped_at) + usize::from(i)) % size];
                (slot.address.load(Relaxed), slot.len.load(Relaxed), slot.flags.load(Relaxed))
            });
            in_flight.pop(chain.id, slots);
        }
    }

    #[cold]
    #[inline(never)]
    fn add_used_recorded(&mut self, chains: &mut [Chain]) {
        let slots = chains.iter().map(|chain| chain.slots).sum();
        let next_used = self.next_used.forward(slots, self.size.get());
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.adding_used(chains.iter().map(|chain| chain.id), next_used);
        }
        self.add_used_plain(chains);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.added_used();
        }
    }

    fn add_used_plain(&mut self, chains: &mut [Chain]) {
        if F::IN_ORDER {
            debug_assert_eq!(chains[0].popped_at, self.next_used.slot, "use in the order popped");
        }
        let ring = self.ring.descriptors();
        let size = self.size.get();
        let first = self.next_used;
        // The driver polls the first slot's line. It is written last, so that the driver does not come and take it
        // while it is being written. Chains that it only reads from are one used descriptor if they are in order.
        let is_one = F::IN_ORDER && chains.first().is_some_and(|chain| chain.writable_bytes == 0);
        let polled = if is_one { chains.len() } else { begin_in_line(chains, LINE - first.slot % LINE) };
        let (polled, rest) = chains.split_at_mut(polled);
        let polled_slots = polled.iter().map(|chain| chain.slots).sum();
        let (rest_slots, _) = self.write_used(rest, first.forward(polled_slots, size), false);
        let (_, flags) = self.write_used(polled, first, true);
        let slots = polled_slots + rest_slots;
        // Release: pairs with the driver's acquire of these flags; ids, lengths and the other flags of the
        // burst are visible before them (§2.8.9). One publishing store for the whole burst.
        if let Some(flags) = flags {
            R::Atomics::publish(&ring[usize::from(first.slot)].flags, flags);
        }
        self.next_used = first.forward(slots, size);
        self.outstanding -= slots;
    }

    /// Writes what says that these chains are used, from a slot on; how many slots, and the first one's flags if
    /// they are withheld.
    #[inline(always)]
    fn write_used(
        &self,
        chains: &mut [Chain],
        from: PackedPosition,
        mut withhold: bool,
    ) -> (u16, Option<u16>) {
        let (ring, size) = (self.ring.descriptors(), self.size.get());
        let (mut at, mut slots, mut withheld) = (from, 0, None);
        batches(chains, F::IN_ORDER, |batch| {
            let slot = &ring[usize::from(at.slot)];
            slot.id.store(batch.id, Relaxed);
            slot.len.store(batch.written, Relaxed);
            let flags = flags::used(at.wrap) | if batch.writable { WRITE } else { 0 };
            if std::mem::take(&mut withhold) {
                withheld = Some(flags);
            } else {
                // Relaxed: the driver gets here only through flags that are stored later, with release.
                slot.flags.store(flags, Relaxed);
            }
            at = at.forward(batch.slots, size);
            slots += batch.slots;
        });
        (slots, withheld)
    }
}

impl<R: PackedRing + Send, F: FeatureSet> DeviceRing for PackedDeviceRing<R, F> {
    type Atomics = R::Atomics;
    type Used = PackedPosition;

    #[inline(always)]
    fn size(&self) -> QueueSize {
        self.size
    }

    fn position(&self) -> Position {
        Position::Packed { next_available: self.next_available, next_used: self.next_used }
    }

    #[inline(always)]
    fn next_used(&self) -> PackedPosition {
        self.next_used
    }

    #[inline(always)]
    fn pop(&mut self, translator: &mut Translator, burst: &mut Burst, max: usize) -> Popped {
        let size = self.size.get();
        let ring = self.ring.descriptors();
        let mut builder = translator.builder(&mut burst.arena);
        let (mut at, mut outstanding) = (self.next_available, self.outstanding);
        let mut popped = 0;
        burst.work.begin();
        let mut stopped = None;
        // Chains mostly are what the last one was: behind a longer one singles are not looked for at once.
        let mut single = true;
        while popped < max {
            if tuning::UNROLL && single && at.slot.is_multiple_of(LINE) {
                let room = (max - popped).min((size - outstanding).into()) as u16;
                let lines = if self.writable {
                    pop_lines::<R::Atomics, true>
                } else {
                    pop_lines::<R::Atomics, false>
                };
                let slots = lines(&mut builder, &mut burst.chains, ring, at, room);
                if slots > 0 {
                    at = at.forward(slots, size);
                    outstanding += slots;
                    popped += usize::from(slots);
                    continue;
                }
            }
            let slot = &ring[usize::from(at.slot)];
            slot.prefetch_ahead();
            // Acquire: pairs with the driver's release of the head's flags; the rest of the chain is
            // visible after it (§2.8.21.1).
            let head = R::Atomics::observe(&slot.flags);
            if head & WRAP_BITS != flags::available(at.wrap) {
                break;
            }
            let first = builder.len();
            let room = size - outstanding;
            match walk::<R::Atomics, F>(
                &mut builder,
                ring,
                at.slot,
                head,
                room,
                self.indirect_flags,
                &mut burst.work,
            ) {
                Ok(chain) => {
                    self.writable = chain.readable_bytes == 0;
                    if !chain.is_single() {
                        burst.work.chain(&chain);
                        if single {
                            prefetch_tables(&builder, ring, at, max - popped);
                        }
                    }
                    single = chain.is_single();
                    burst.chains.push(chain);
                    at = at.forward(chain.slots, size);
                    outstanding += chain.slots;
                    popped += 1;
                    if burst.work.is_enough() {
                        break;
                    }
                }
                Err(error) => {
                    builder.truncate(first);
                    stopped = Some(error);
                    break;
                }
            }
        }
        self.next_available = at;
        self.outstanding = outstanding;
        if self.in_flight.is_some() {
            self.record_popped(burst, popped);
        }
        (popped, stopped)
    }

    #[inline(always)]
    fn has_resubmit(&self) -> bool {
        self.in_flight.as_ref().is_some_and(PackedInFlight::has_resubmit)
    }

    fn pop_resubmitted(
        &mut self,
        builder: &mut SgBuilder<'_>,
        work: &mut Work,
    ) -> Option<Result<Chain, PopError>> {
        let in_flight = self.in_flight.as_mut()?;
        let chain = in_flight.peek_resubmit(|entry, buffer| {
            walk_stored::<F>(builder, entry, buffer, self.indirect_flags, work)
        })?;
        if chain.is_ok() {
            in_flight.resubmitted();
        }
        Some(chain)
    }

    fn rewind(&mut self, chains: &[Chain]) -> bool {
        let size = self.size.get();
        let is_latest = chains.last().is_some_and(|chain| {
            self.next_available.back(chain.slots, size).slot == chain.popped_at
                && chain.slots <= self.outstanding
        });
        if !is_latest {
            return false;
        }
        let slots = chains.iter().map(|chain| chain.slots).sum();
        if let Some(in_flight) = &mut self.in_flight
            && !in_flight.rewind(chains.iter().map(|chain| chain.id))
        {
            return false;
        }
        self.next_available = self.next_available.back(slots, size);
        self.outstanding -= slots;
        true
    }

    #[inline(always)]
    fn add_used(&mut self, chains: &mut [Chain], _: Option<Demotion>) {
        if self.in_flight.is_some() {
            self.add_used_recorded(chains);
        } else {
            self.add_used_plain(chains);
        }
    }

    fn demotes_descriptors(&self) -> bool {
        false
    }

    #[inline(always)]
    fn used_since(&self, from: PackedPosition) -> u16 {
        distance(from, self.next_used, self.size.get())
    }

    #[inline(always)]
    fn wants_call(&self, uncalled: u32) -> bool {
        // The driver waits at one of the places of the last lap.
        let size = self.size.get();
        let old = self.next_used.back(uncalled.min(size.into()) as u16, size);
        self.ring.driver_event().wants(old, self.next_used, self.size.get(), F::EVENT_IDX)
    }

    fn arm_kicks(&self) {
        self.ring.device_event().arm(self.next_available, F::EVENT_IDX);
    }

    fn disarm_kicks(&self) {
        self.ring.device_event().disarm();
    }

    fn available_chains(&self) -> u16 {
        let mut at = self.next_available;
        let mut chains = 0;
        for _ in 0..self.size.get() - self.outstanding.min(self.size.get()) {
            let flags = R::Atomics::observe(&self.ring.descriptors()[usize::from(at.slot)].flags);
            if flags & WRAP_BITS != flags::available(at.wrap) {
                break;
            }
            chains += u16::from(flags & NEXT == 0);
            at = at.forward(1, self.size.get());
        }
        chains
    }

    fn is_available(&self) -> bool {
        let slot = &self.ring.descriptors()[usize::from(self.next_available.slot)];
        R::Atomics::observe(&slot.flags) & WRAP_BITS == flags::available(self.next_available.wrap)
    }

    fn mark_used(&self, log: &UsedLog, from: PackedPosition) -> Result<(), RingError> {
        let slots = distance(from, self.next_used, self.size.get());
        log.mark_packed_used(from.slot, slots, self.size)
    }

    fn mark_events(&self, log: &UsedLog) -> Result<(), RingError> {
        log.mark_packed_events()
    }
}

/// How many of these chains, one behind the other, begin within so many slots.
#[inline(always)]
fn begin_in_line(chains: &[Chain], slots: u16) -> usize {
    let mut begin = 0;
    let mut counts = 0;
    for chain in chains.iter().take(LINE.into()) {
        if begin >= slots {
            break;
        }
        begin += chain.slots;
        counts += 1;
    }
    counts
}

/// Slots from `from` to `to`; a full lap counts as one.
fn distance(from: PackedPosition, to: PackedPosition, size: u16) -> u16 {
    if from.wrap == to.wrap {
        to.slot.saturating_sub(from.slot)
    } else {
        (u32::from(to.slot) + u32::from(size) - u32::from(from.slot)).min(size.into()) as u16
    }
}

/// Pops whole cache lines from `at` on, up to `room` slots and the end of the ring, as long as all four slots
/// of a line are available and each is a whole chain of one ordinary descriptor in this direction. Returns how
/// many slots; the rest is for the way that goes one by one.
#[inline(never)] // registers of its own: inlined, much of the loop's state lives on the stack
fn pop_lines<A: Atomics, const WRITABLE: bool>(
    builder: &mut SgBuilder<'_>,
    chains: &mut Chains,
    ring: &[PackedDescriptor<A>],
    at: PackedPosition,
    room: u16,
) -> u16 {
    let expected = flags::available(at.wrap) | if WRITABLE { WRITE } else { 0 };
    let size = ring.len() as u16;
    let (lines, _) = ring[usize::from(at.slot)..].as_chunks::<{ LINE as usize }>();
    let spare = chains.spare().as_chunks_mut::<{ LINE as usize }>().0;
    let mut singles = Singles::<WRITABLE>::new(builder, room.into());
    let mut slot = at.slot;
    for (line, chains) in lines.iter().zip(spare).take((room / LINE).into()) {
        line[0].prefetch_ahead();
        // Acquire each: pairs with the driver's release; a slot's own flags are proof enough for it.
        let flags: [u16; LINE as usize] = std::array::from_fn(|i| A::observe(&line[i].flags));
        let odd = flags.iter().fold(0, |odd, flags| odd | (flags ^ expected));
        if odd & (WRAP_BITS | NEXT | INDIRECT | WRITE) != 0 {
            break;
        }
        let mut popped = 0;
        for (descriptor, chain) in line.iter().zip(chains) {
            let id = descriptor.id.load(Relaxed);
            let buffer = (descriptor.address.load(Relaxed), descriptor.len.load(Relaxed));
            if id >= size || !singles.push(buffer, id, slot + popped as u16, chain) {
                break;
            }
            popped += 1;
        }
        if popped < line.len() {
            singles.take_back(popped);
            break;
        }
        slot += LINE;
    }
    drop(singles);
    chains.add((slot - at.slot).into());
    slot - at.slot
}
