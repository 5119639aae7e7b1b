//! The device half of a packed ring.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{AddressSpace, Flush, Lender, Translator};

use super::flags::{self, INDIRECT, NEXT, WRAP_BITS, WRITE};
use super::ring::{LINE, PackedDescriptor, PackedRing};
use crate::atomics::{Atomics, Word};
use crate::burst::{Burst, Chain, ChainBuilder, Chains, Singles, batches};
use crate::device::{DeviceQueue, UsedLog, fresh_owner};
use crate::error::{Malformed, Place, RingError, TakeError};
use crate::flush::FlushChoice;
use crate::inflight::PackedInFlight;
use crate::position::Cursor;
use crate::work::{MAX_CHAIN, Work};
use crate::{FeatureSet, Position, QueueSize, TableFlags, tuning};

/// A running packed ring as the device sees it.
pub struct PackedDevice<R, F> {
    ring: R,
    size: QueueSize,
    owner: u64,
    translator: Translator,
    next_available: Cursor,
    next_used: Cursor,
    /// Slots that are taken and not yet used.
    outstanding: u16,
    /// Whether the last chain that was walked was only to be written: those of a queue mostly all are, or none.
    writable: bool,
    /// Used cursor at the last decision about a call; `None` makes the next decision a yes.
    called_at: Option<Cursor>,
    flush: FlushChoice,
    broken: Option<RingError>,
    log: Option<UsedLog>,
    in_flight: Option<PackedInFlight>,
    tables: TableFlags,
    features: PhantomData<F>,
}

impl<R: PackedRing, F: FeatureSet> PackedDevice<R, F> {
    /// A queue over a ring whose memory has been found. Nothing in the ring is believed yet.
    pub fn new(
        ring: R,
        size: QueueSize,
        position: Position,
        translator: Translator,
        log: Option<UsedLog>,
        in_flight: Option<PackedInFlight>,
    ) -> Self {
        let (mut next_available, mut next_used) = match position {
            Position::Packed { next_available, next_used } => (next_available, next_used),
            Position::Split { .. } => (Cursor::START, Cursor::START),
        };
        // A base from the wire may name a slot that the ring does not have.
        next_available.slot %= size.get();
        next_used.slot %= size.get();
        if let Some(in_flight) = &in_flight {
            next_used = in_flight.next_used();
            next_available = next_used.forward(in_flight.resubmit_slots(), size.get());
        }
        let ahead = distance(next_used, next_available, size.get());
        let fresh = next_available == Cursor::START && next_used == Cursor::START;
        PackedDevice {
            ring,
            size,
            owner: fresh_owner(),
            translator,
            next_available,
            next_used,
            outstanding: ahead,
            writable: false,
            called_at: fresh.then_some(Cursor::START),
            flush: FlushChoice::new(size, false),
            broken: None,
            log,
            in_flight,
            tables: TableFlags::Believed,
            features: PhantomData,
        }
    }

    /// Makes this of the flags in tables.
    pub fn with_tables(self, tables: TableFlags) -> Self {
        PackedDevice { tables, ..self }
    }

    fn stop<T>(&mut self, error: TakeError) -> Result<T, TakeError> {
        if let TakeError::Malformed(malformed) = error {
            self.broken = Some(malformed);
        }
        Err(error)
    }

    #[cold]
    fn take_resubmitted(&mut self, burst: &mut Burst, max: usize) -> Result<usize, TakeError> {
        burst.work.begin();
        let mut taken = 0;
        while taken < max && !burst.work.is_enough() {
            let Some(in_flight) = &mut self.in_flight else { break };
            let mut lender = self.translator.lend(&mut burst.lent);
            let first = lender.len();
            match in_flight.peek_resubmit(|entry, buffer| {
                walk_stored::<F>(&mut lender, entry, buffer, self.tables, &mut burst.work)
            }) {
                None => break,
                Some(Ok(chain)) => {
                    in_flight.resubmitted();
                    burst.work.lent(&chain);
                    burst.chains.push(chain);
                    burst.open += 1;
                    taken += 1;
                }
                Some(Err(error)) => {
                    lender.truncate(first);
                    return if taken > 0 { Ok(taken) } else { self.stop(error) };
                }
            }
        }
        Ok(taken)
    }

    /// The last `taken` chains of the burst are in flight now.
    #[cold]
    #[inline(never)]
    fn record_taken(&mut self, burst: &Burst, taken: usize) {
        let Some(in_flight) = &mut self.in_flight else { return };
        let (ring, size) = (self.ring.descriptors(), usize::from(self.size.get()));
        for chain in &burst.chains[burst.chains.len() - taken..] {
            let slots = (0..chain.slots).map(|i| {
                let slot = &ring[(usize::from(chain.taken_at) + usize::from(i)) % size];
                (slot.address.load(Relaxed), slot.len.load(Relaxed), slot.flags.load(Relaxed))
            });
            in_flight.take(chain.id, slots);
        }
    }

    #[cold]
    fn log_written(&mut self, burst: &Burst, range: Range<usize>) {
        let Some(log) = &self.log else { return };
        for chain in &burst.chains[range] {
            let marked = log.mark_buffers(&self.translator, burst.writable(chain), chain.written);
            if let Err(error) = marked {
                self.broken.get_or_insert(error);
            }
        }
    }

    /// The event suppression structure has been stored.
    #[cold]
    fn log_events(&mut self) {
        let Some(log) = &self.log else { return };
        if let Err(error) = log.mark_packed_events() {
            self.broken.get_or_insert(error);
        }
    }

    #[inline(always)]
    fn complete_run(&mut self, burst: &mut Burst, range: Range<usize>) {
        if self.log.is_some() || self.in_flight.is_some() {
            self.complete_and_record(burst, range);
        } else {
            self.complete_plain(burst, range);
        }
    }

    /// Buffers are marked before the slots that give them back can be seen, the slots behind the store that shows
    /// them: a front-end that copied their page between mark and store would not have it.
    #[cold]
    #[inline(never)]
    fn complete_and_record(&mut self, burst: &mut Burst, range: Range<usize>) {
        if self.log.is_some() {
            self.log_written(burst, range.clone());
        }
        let slots = burst.chains[range.clone()].iter().map(|chain| chain.slots).sum();
        let from = self.next_used;
        if let Some(in_flight) = &mut self.in_flight {
            let ids = burst.chains[range.clone()].iter().map(|chain| chain.id);
            in_flight.completing(ids, from.forward(slots, self.size.get()));
        }
        self.complete_plain(burst, range);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.completed();
        }
        let Some(log) = &self.log else { return };
        if let Err(error) = log.mark_packed_used(from.slot, slots, self.size) {
            self.broken.get_or_insert(error);
        }
    }

    fn complete_plain(&mut self, burst: &mut Burst, range: Range<usize>) {
        if F::IN_ORDER {
            debug_assert_eq!(
                burst.chains[range.start].taken_at, self.next_used.slot,
                "complete in the order taken"
            );
        }
        let count = range.len();
        let ring = self.ring.descriptors();
        let size = self.size.get();
        let first = self.next_used;
        // The driver polls the first slot's line. It is written last, so that the driver does not come and take it
        // while it is being written. Chains that it only reads from are one used descriptor if they are in order.
        let chains = &mut burst.chains[range];
        let is_one = F::IN_ORDER && chains.first().is_some_and(|chain| chain.writable_bytes == 0);
        let polled = if is_one { count } else { begin_in_line(chains, LINE - first.slot % LINE) };
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
        burst.open -= count;
    }

    /// Writes what says that these chains are used, from a slot on; how many slots, and the first one's flags if
    /// they are withheld.
    #[inline(always)]
    fn write_used(&self, chains: &mut [Chain], from: Cursor, mut withhold: bool) -> (u16, Option<u16>) {
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

impl<R, F> DeviceQueue for PackedDevice<R, F>
where
    R: PackedRing + Send,
    F: FeatureSet,
{
    fn size(&self) -> QueueSize {
        self.size
    }

    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<usize, TakeError> {
        if let Some(error) = self.broken {
            return Err(error.into());
        }
        burst.begin(self.owner);
        let max = max.min(burst.room());
        if self.in_flight.as_ref().is_some_and(PackedInFlight::has_resubmit) {
            return self.take_resubmitted(burst, max);
        }
        let size = self.size.get();
        let ring = self.ring.descriptors();
        let mut lender = self.translator.lend(&mut burst.lent);
        let (mut at, mut outstanding) = (self.next_available, self.outstanding);
        let mut taken = 0;
        burst.work.begin();
        let mut stopped = None;
        // Chains mostly are what the last one was: behind a longer one singles are not looked for at once.
        let mut single = true;
        while taken < max {
            if tuning::UNROLL && single && at.slot.is_multiple_of(LINE) {
                let room = (max - taken).min((size - outstanding).into()) as u16;
                let lines = if self.writable {
                    take_lines::<R::Atomics, true>
                } else {
                    take_lines::<R::Atomics, false>
                };
                let slots = lines(&mut lender, &mut burst.chains, ring, at, room);
                if slots > 0 {
                    at = at.forward(slots, size);
                    outstanding += slots;
                    taken += usize::from(slots);
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
            let first = lender.len();
            let room = size - outstanding;
            match walk::<R::Atomics, F>(&mut lender, ring, at.slot, head, room, self.tables, &mut burst.work)
            {
                Ok(chain) => {
                    self.writable = chain.readable_bytes == 0;
                    if !chain.is_single() {
                        burst.work.lent(&chain);
                        if single {
                            prefetch_tables(&lender, ring, at, max - taken);
                        }
                    }
                    single = chain.is_single();
                    burst.chains.push(chain);
                    at = at.forward(chain.slots, size);
                    outstanding += chain.slots;
                    taken += 1;
                    if burst.work.is_enough() {
                        break;
                    }
                }
                Err(error) => {
                    lender.truncate(first);
                    stopped = Some(error);
                    break;
                }
            }
        }
        self.next_available = at;
        self.outstanding = outstanding;
        self.flush.polled(taken);
        burst.open += taken;
        if self.in_flight.is_some() {
            self.record_taken(burst, taken);
        }
        match stopped {
            Some(error) if taken == 0 => self.stop(error),
            Some(TakeError::Malformed(error)) => {
                self.broken = Some(error);
                Ok(taken)
            }
            _ => Ok(taken),
        }
    }

    fn put_back(&mut self, burst: &mut Burst, from: usize) -> usize {
        let size = self.size.get();
        let latest = burst.chains.last().is_some_and(|chain| {
            self.next_available.back(chain.slots, size).slot == chain.taken_at
                && chain.slots <= self.outstanding
        });
        if burst.owner != self.owner || !latest || !burst.all_open(from) {
            return 0;
        }
        let back = &burst.chains[from..];
        let (count, slots) = (back.len(), back.iter().map(|chain| chain.slots).sum());
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.put_back(back.iter().map(|chain| chain.id));
        }
        self.next_available = self.next_available.back(slots, size);
        self.outstanding -= slots;
        burst.cut(from);
        count
    }

    fn complete(&mut self, burst: &mut Burst, chains: Range<usize>) {
        if burst.owner != self.owner || chains.is_empty() {
            return;
        }
        if burst.open == burst.chains.len() {
            return self.complete_run(burst, chains);
        }
        let mut at = chains.start;
        while at < chains.end {
            let start = at;
            while at < chains.end && !burst.chains[at].done {
                at += 1;
            }
            if start < at {
                self.complete_run(burst, start..at);
            } else {
                at += 1;
            }
        }
    }

    fn needs_call(&mut self) -> bool {
        let Some(old) = self.called_at.replace(self.next_used) else { return true };
        if old == self.next_used {
            return false;
        }
        // Flags published before, suppression read after: pairs with the driver's barrier between arming
        // and looking at the ring (§2.8.10.1.1).
        R::Atomics::full_barrier();
        self.ring.driver_event().wants(old, self.next_used, self.size.get(), F::EVENT_IDX)
    }

    fn enable_kicks(&mut self) -> bool {
        self.ring.device_event().arm(self.next_available, F::EVENT_IDX);
        if self.log.is_some() {
            self.log_events();
        }
        // Armed before, ring read after: pairs with the driver's barrier between publishing and reading
        // the suppression (§2.8.21.3). One of the two sees the other.
        R::Atomics::full_barrier();
        let slot = &self.ring.descriptors()[usize::from(self.next_available.slot)];
        R::Atomics::observe(&slot.flags) & WRAP_BITS == flags::available(self.next_available.wrap)
    }

    fn disable_kicks(&mut self) {
        self.ring.device_event().disarm();
        if self.log.is_some() {
            self.log_events();
        }
    }

    #[inline]
    fn flush(&self) -> Option<Flush> {
        self.flush.frames()
    }

    fn position(&self) -> Position {
        Position::Packed { next_available: self.next_available, next_used: self.next_used }
    }

    fn broken(&self) -> Option<RingError> {
        self.broken
    }

    fn set_space(&mut self, space: Arc<AddressSpace>) {
        self.translator.set_space(space);
    }

    fn set_log(&mut self, log: Option<UsedLog>) {
        self.log = log;
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
fn distance(from: Cursor, to: Cursor, size: u16) -> u16 {
    if from.wrap == to.wrap {
        to.slot.saturating_sub(from.slot)
    } else {
        (u32::from(to.slot) + u32::from(size) - u32::from(from.slot)).min(size.into()) as u16
    }
}

/// Asks for the indirect tables of the next `count` slots, up to the end of what is available or of the ring,
/// all at once so that their ways overlap.
#[inline(never)]
fn prefetch_tables<A: Atomics>(lender: &Lender<'_>, ring: &[PackedDescriptor<A>], at: Cursor, count: usize) {
    if !tuning::PREFETCH {
        return;
    }
    for slot in ring[usize::from(at.slot)..].iter().take(count) {
        // A hint: what is believed is observed again.
        let flags = slot.flags.load(Relaxed);
        if flags & WRAP_BITS != flags::available(at.wrap) {
            break;
        }
        if flags & INDIRECT != 0 {
            lender.prefetch(slot.address.load(Relaxed));
        }
    }
}

/// Takes whole cache lines from `at` on, up to `room` slots and the end of the ring, as long as all four slots
/// of a line are available and each is a whole chain of one ordinary descriptor in this direction. Returns how
/// many slots; the rest is for the way that goes one by one.
#[inline(never)] // registers of its own: inlined, much of the loop's state lives on the stack
fn take_lines<A: Atomics, const WRITABLE: bool>(
    lender: &mut Lender<'_>,
    chains: &mut Chains,
    ring: &[PackedDescriptor<A>],
    at: Cursor,
    room: u16,
) -> u16 {
    let expected = flags::available(at.wrap) | if WRITABLE { WRITE } else { 0 };
    let size = ring.len() as u16;
    let (lines, _) = ring[usize::from(at.slot)..].as_chunks::<{ LINE as usize }>();
    let spare = chains.spare().as_chunks_mut::<{ LINE as usize }>().0;
    let mut singles = Singles::<WRITABLE>::new(lender, room.into());
    let mut slot = at.slot;
    for (line, chains) in lines.iter().zip(spare).take((room / LINE).into()) {
        line[0].prefetch_ahead();
        // Acquire each: pairs with the driver's release; a slot's own flags are proof enough for it.
        let flags: [u16; LINE as usize] = std::array::from_fn(|i| A::observe(&line[i].flags));
        let odd = flags.iter().fold(0, |odd, flags| odd | (flags ^ expected));
        if odd & (WRAP_BITS | NEXT | INDIRECT | WRITE) != 0 {
            break;
        }
        let mut taken = 0;
        for (descriptor, chain) in line.iter().zip(chains) {
            let id = descriptor.id.load(Relaxed);
            let buffer = (descriptor.address.load(Relaxed), descriptor.len.load(Relaxed));
            if id >= size || !singles.push(buffer, id, slot + taken as u16, chain) {
                break;
            }
            taken += 1;
        }
        if taken < line.len() {
            singles.take_back(taken);
            break;
        }
        slot += LINE;
    }
    drop(singles);
    chains.add((slot - at.slot).into());
    slot - at.slot
}

/// Follows a chain from its first slot and lends its buffers; `room` slots may still become outstanding.
#[cfg_attr(not(feature = "ablate-inline"), inline(always))]
#[cfg_attr(feature = "ablate-inline", inline(never))]
fn walk<A: Atomics, F: FeatureSet>(
    lender: &mut Lender<'_>,
    ring: &[PackedDescriptor<A>],
    first: u16,
    head: u16,
    room: u16,
    tables: TableFlags,
    work: &mut Work,
) -> Result<Chain, TakeError> {
    let mut chain = ChainBuilder::new(lender);
    let (mut slot, mut flags, mut slots) = (first, head, 1);
    if room == 0 {
        return Err(TakeError::malformed(Malformed::AvailableTooFarAhead, Place::Slot(first), first.into()));
    }
    loop {
        let descriptor = &ring[usize::from(slot)];
        let address = descriptor.address.load(Relaxed);
        let len = descriptor.len.load(Relaxed);
        let place = Place::Slot(slot);
        if flags & INDIRECT != 0 {
            check_indirect::<F>(flags, place)?;
            walk_indirect(&mut chain, lender, (address, len), slot, tables, work)?;
        } else {
            chain.add(lender, address, len, flags & WRITE != 0, place)?;
        }
        if flags & NEXT == 0 {
            // The id counts only in the last descriptor (§2.8.6).
            let id = descriptor.id.load(Relaxed);
            if usize::from(id) >= ring.len() {
                return Err(TakeError::malformed(Malformed::BufferIdOutOfRange, place, id.into()));
            }
            return Ok(chain.finish(lender, id, slots, first));
        }
        if slots == room.min(MAX_CHAIN) {
            return Err(TakeError::malformed(Malformed::ChainTooLong, Place::Slot(first), slots.into()));
        }
        slots += 1;
        work.followed(1);
        slot = if usize::from(slot) + 1 == ring.len() { 0 } else { slot + 1 };
        // Relaxed: the head's flags, observed with acquire, came after these.
        flags = ring[usize::from(slot)].flags.load(Relaxed);
    }
}

fn check_indirect<F: FeatureSet>(flags: u16, place: Place) -> Result<(), TakeError> {
    if !F::INDIRECT {
        return Err(TakeError::malformed(Malformed::IndirectNotNegotiated, place, flags.into()));
    }
    if flags & NEXT != 0 {
        return Err(TakeError::malformed(Malformed::IndirectWithNext, place, flags.into()));
    }
    Ok(())
}

/// A table of descriptors in a buffer of its own: all of its entries are the chain, in order (§2.8.7).
fn walk_indirect(
    chain: &mut ChainBuilder,
    lender: &mut Lender<'_>,
    (table, len): (u64, u32),
    slot: u16,
    tables: TableFlags,
    work: &mut Work,
) -> Result<(), TakeError> {
    let entries = len / 16;
    if !len.is_multiple_of(16) || entries == 0 || entries > u32::from(MAX_CHAIN) {
        return Err(TakeError::malformed(Malformed::IndirectTableSize, Place::Slot(slot), len.into()));
    }
    work.followed(entries);
    for entry in 0..entries as u16 {
        let place = Place::Indirect { of: slot, entry };
        let mut bytes = [0; 16];
        let address = table.wrapping_add(u64::from(entry) * 16);
        lender.read(address, &mut bytes).map_err(|fault| TakeError::fault(fault, place))?;
        let whole = u128::from_le_bytes(bytes);
        let flags = (whole >> 112) as u16;
        if flags & INDIRECT != 0 {
            return Err(TakeError::malformed(Malformed::IndirectInIndirect, place, flags.into()));
        }
        let writable = flags & WRITE != 0 && tables == TableFlags::Believed;
        chain.add(lender, whole as u64, (whole >> 64) as u32, writable, place)?;
    }
    Ok(())
}

/// A chain as the in-flight region recorded it.
fn walk_stored<F: FeatureSet>(
    lender: &mut Lender<'_>,
    entry: u16,
    buffer: &crate::inflight::StoredBuffer,
    tables: TableFlags,
    work: &mut Work,
) -> Result<Chain, TakeError> {
    let mut chain = ChainBuilder::new(lender);
    let place = Place::InFlight(entry);
    let descriptors = buffer.descriptors.len();
    if descriptors > MAX_CHAIN.into() {
        return Err(TakeError::malformed(Malformed::ChainTooLong, place, descriptors as u64));
    }
    work.followed(descriptors as u32);
    for &(address, len, flags) in &buffer.descriptors {
        if flags & INDIRECT != 0 {
            check_indirect::<F>(flags, place)?;
            walk_indirect(&mut chain, lender, (address, len), entry, tables, work)?;
        } else {
            chain.add(lender, address, len, flags & WRITE != 0, place)?;
        }
    }
    Ok(chain.finish(lender, buffer.id, descriptors as u16, buffer.slot))
}
