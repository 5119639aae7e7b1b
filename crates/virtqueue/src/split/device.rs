//! The device half of a split ring: takes what is available, gives back what is used.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use memory::{AddressSpace, Flush, Lender, Translator, prefetch};

use super::flags::{INDIRECT, NEXT, WRITE};
use super::ring::{AVAILABLE_ENTRIES, AVAILABLE_FLAGS, AVAILABLE_INDEX, Read, USED_FLAGS, USED_INDEX};
use super::{NO_NOTIFICATION, SplitDescriptor, SplitRing};
use crate::atomics::{Atomics, Word};
use crate::burst::{Burst, Chain, ChainBuilder, Chains, Singles, batches};
use crate::device::{DeviceQueue, UsedLog, fresh_owner};
use crate::error::{Malformed, Place, RingError, TakeError};
use crate::flush::FlushChoice;
use crate::inflight::SplitInFlight;
use crate::position::event_passed;
use crate::work::{MAX_CHAIN, Work};
use crate::{FeatureSet, Position, QueueSize, tuning};

/// Descriptors per cache line.
const LINE: u16 = 4;

/// A running split ring as the device sees it.
pub struct SplitDevice<R, F> {
    ring: R,
    size: QueueSize,
    owner: u64,
    translator: Translator,
    /// Next entry of the available ring to take.
    next_available: u16,
    /// The available index as last observed: not read again while it suffices.
    available_seen: u16,
    /// Next entry of the used ring to write.
    next_used: u16,
    /// Used index at the last decision about a call; `None` makes the next decision a yes.
    called_at: Option<u16>,
    /// Whether the last chain that was walked was only to be written: those of a queue mostly all are, or none.
    writable: bool,
    flush: FlushChoice,
    broken: Option<RingError>,
    log: Option<UsedLog>,
    in_flight: Option<SplitInFlight>,
    features: PhantomData<F>,
}

impl<R: SplitRing, F: FeatureSet> SplitDevice<R, F> {
    /// A queue over a ring whose memory has been found. Nothing in the ring is believed yet.
    pub fn new(
        ring: R,
        size: QueueSize,
        position: Position,
        translator: Translator,
        log: Option<UsedLog>,
        in_flight: Option<SplitInFlight>,
    ) -> Self {
        let (next_available, mut next_used) = match position {
            Position::Split { next_available, next_used } => (next_available, next_used),
            Position::Packed { .. } => (0, 0),
        };
        let mut next_available = next_available;
        if let Some(in_flight) = &in_flight {
            // vhost-user, "Inflight I/O tracking": the used ring itself says how far it got, and what was
            // taken beyond that and not completed is in the region.
            next_used = R::Atomics::observe(&ring.used_header()[USED_INDEX]);
            next_available = next_used.wrapping_add(in_flight.resubmit_len());
        }
        let fresh = next_available == 0 && next_used == 0;
        SplitDevice {
            ring,
            size,
            owner: fresh_owner(),
            translator,
            next_available,
            available_seen: next_available,
            next_used,
            called_at: fresh.then_some(0),
            writable: false,
            flush: FlushChoice::new(size, in_flight.is_none()),
            broken: None,
            log,
            in_flight,
            features: PhantomData,
        }
    }

    /// Number of chains that can be taken, observing the index again if fewer than `wanted` are known.
    #[inline(always)]
    fn available(&mut self, wanted: usize) -> Result<u16, TakeError> {
        let known = self.available_seen.wrapping_sub(self.next_available);
        if usize::from(known) >= wanted {
            return Ok(known);
        }
        // Acquire: pairs with the driver's release of the index; entries and descriptors before it are
        // visible now (§2.7.13.3).
        let index = R::Atomics::observe(&self.ring.available()[AVAILABLE_INDEX]);
        if index.wrapping_sub(self.next_used) > self.size.get() {
            return Err(TakeError::malformed(
                Malformed::AvailableTooFarAhead,
                Place::AvailableIndex,
                index.into(),
            ));
        }
        // A driver that turns its index back behind what was taken lands here as an empty ring or as the
        // error above; either way nothing is taken twice.
        let fresh = index.wrapping_sub(self.next_available);
        if fresh > self.size.get() {
            return Err(TakeError::malformed(
                Malformed::AvailableTooFarAhead,
                Place::AvailableIndex,
                index.into(),
            ));
        }
        self.available_seen = index;
        Ok(fresh)
    }

    fn stop<T>(&mut self, error: TakeError) -> Result<T, TakeError> {
        if let TakeError::Malformed(malformed) = error {
            self.broken = Some(malformed);
        }
        Err(error)
    }

    /// Chains that a previous process had taken and not completed come first, in their old order.
    #[cold]
    fn take_resubmitted(&mut self, burst: &mut Burst, max: usize) -> Result<usize, TakeError> {
        burst.work.begin();
        let mut taken = 0;
        while taken < max && !burst.work.is_enough() {
            let Some(head) = self.in_flight.as_ref().and_then(SplitInFlight::peek_resubmit) else { break };
            let left = self.in_flight.as_ref().map_or(0, SplitInFlight::resubmit_len);
            let taken_at = self.next_available.wrapping_sub(left);
            let table = self.ring.descriptors();
            let mut lender = self.translator.lend(&mut burst.lent);
            let first = lender.len();
            let place = Place::InFlight(head);
            match walk::<R::Atomics, F>(&mut lender, table, head, place, taken_at, &mut burst.work) {
                Ok(chain) => {
                    burst.work.lent(&chain);
                    burst.chains.push(chain);
                    burst.open += 1;
                    taken += 1;
                    if let Some(in_flight) = &mut self.in_flight {
                        in_flight.resubmitted();
                    }
                }
                Err(error) => {
                    lender.truncate(first);
                    return if taken > 0 { Ok(taken) } else { self.stop(error) };
                }
            }
        }
        Ok(taken)
    }

    /// Writes used entries for `chains` and moves `next_used`; does not publish.
    fn write_used(&mut self, chains: &mut [Chain]) {
        let used = self.ring.used();
        let mask = usize::from(self.size.get() - 1);
        let mut next = self.next_used;
        batches(chains, F::IN_ORDER, |batch| {
            used[usize::from(next) & mask].write(batch.id.into(), batch.written);
            next = next.wrapping_add(batch.chains);
        });
        self.next_used = next;
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

    /// Flags or event index have been stored.
    #[cold]
    fn log_events(&mut self) {
        let Some(log) = &self.log else { return };
        if let Err(error) = log.mark_split_events(self.size) {
            self.broken.get_or_insert(error);
        }
    }

    #[inline(always)]
    fn complete_run(&mut self, burst: &mut Burst, range: Range<usize>) {
        if self.log.is_some() {
            self.complete_and_log(burst, range);
        } else {
            self.complete_plain(burst, range);
        }
    }

    /// Buffers are marked before their used entries can be seen, the used ring behind the store of its index: a
    /// front-end that copied the page between mark and store would not have it.
    #[cold]
    #[inline(never)]
    fn complete_and_log(&mut self, burst: &mut Burst, range: Range<usize>) {
        self.log_written(burst, range.clone());
        let from = self.next_used;
        self.complete_plain(burst, range);
        let Some(log) = &self.log else { return };
        if let Err(error) = log.mark_split_used(from, self.next_used, self.size) {
            self.broken.get_or_insert(error);
        }
    }

    fn complete_plain(&mut self, burst: &mut Burst, range: Range<usize>) {
        if F::IN_ORDER {
            // The used entry of a batch implies those before it, so order is the caller's duty.
            debug_assert_eq!(
                burst.chains[range.start].taken_at, self.next_used,
                "complete in the order taken"
            );
        }
        let count = range.len();
        self.write_used(&mut burst.chains[range.clone()]);
        burst.open -= count;
        // Release: pairs with the driver's acquire of the index; the entries above are visible before it
        // (§2.7.8.2). One store for the whole burst.
        let publish = |index| R::Atomics::publish(&self.ring.used_header()[USED_INDEX], index);
        if let Some(in_flight) = &mut self.in_flight {
            // One by one, as the recovery rule needs: at most the last batch is in doubt.
            let heads = burst.chains[range].iter().map(|chain| chain.id);
            in_flight.complete(heads, self.next_used, publish);
        } else {
            if let Some(flush) = self.flush.descriptors() {
                give_up_descriptors(flush, self.ring.descriptors(), &burst.chains[range]);
            }
            publish(self.next_used);
        }
    }
}

impl<R, F> DeviceQueue for SplitDevice<R, F>
where
    R: SplitRing + Send,
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
        if self.in_flight.as_ref().is_some_and(|f| f.peek_resubmit().is_some()) {
            return self.take_resubmitted(burst, max);
        }
        let count = match self.available(max) {
            Ok(count) => max.min(usize::from(count)) as u16,
            Err(error) => return self.stop(error),
        };
        let table = self.ring.descriptors();
        let entries = &self.ring.available()[AVAILABLE_ENTRIES..];
        let mask = self.size.get() - 1;
        let mut lender = self.translator.lend(&mut burst.lent);
        let mut stopped = None;
        // Chains mostly are what the last one was: behind a longer one singles are not looked for at once.
        let mut single = true;
        burst.work.begin();
        let (mut i, mut count) = (0, count);
        while i < count {
            let at = self.next_available.wrapping_add(i);
            if single {
                let singles = if self.writable {
                    take_singles::<R::Atomics, true>
                } else {
                    take_singles::<R::Atomics, false>
                };
                i += singles(&mut lender, &mut burst.chains, table, entries, (at, count - i));
                if i == count {
                    break;
                }
            }
            // One that is no simple chain, goes the other way, or is not a chain at all.
            let at = self.next_available.wrapping_add(i);
            let entry = at & mask;
            let head = entries[usize::from(entry)].load(Relaxed);
            let first = lender.len();
            match walk::<R::Atomics, F>(
                &mut lender,
                table,
                head,
                Place::Available(entry),
                at,
                &mut burst.work,
            ) {
                Ok(chain) => {
                    self.writable = chain.readable_bytes == 0;
                    if !chain.is_single() {
                        burst.work.lent(&chain);
                        if single {
                            prefetch_tables(&lender, table, entries, (at, count - i));
                        }
                    }
                    single = chain.is_single();
                    burst.chains.push(chain);
                    if burst.work.is_enough() {
                        count = i + 1;
                    }
                }
                Err(error) => {
                    lender.truncate(first);
                    stopped = Some((i, error));
                    break;
                }
            }
            i += 1;
        }
        let taken = stopped.map_or(count, |(i, _)| i);
        if let Some(in_flight) = &mut self.in_flight {
            let from = burst.chains.len() - usize::from(taken);
            in_flight.take(burst.chains[from..].iter().map(|chain| chain.id));
        }
        self.next_available = self.next_available.wrapping_add(taken);
        self.flush.polled(taken.into());
        burst.open += usize::from(taken);
        match stopped {
            // What came before the bad chain is good; the error comes with the next call.
            Some((0, error)) => self.stop(error),
            Some((_, TakeError::Malformed(error))) => {
                self.broken = Some(error);
                Ok(usize::from(taken))
            }
            _ => Ok(usize::from(taken)),
        }
    }

    fn put_back(&mut self, burst: &mut Burst, from: usize) -> usize {
        let latest =
            burst.chains.last().is_some_and(|chain| chain.taken_at.wrapping_add(1) == self.next_available);
        if burst.owner != self.owner || !latest || !burst.all_open(from) {
            return 0;
        }
        let back = &burst.chains[from..];
        let count = back.len();
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.put_back(back.iter().map(|chain| chain.id));
        }
        self.next_available = self.next_available.wrapping_sub(count as u16);
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
        // Used index published before, suppression read after: pairs with the driver's barrier between
        // arming and looking at the used index (§2.7.7.2).
        R::Atomics::full_barrier();
        let available = self.ring.available();
        if F::EVENT_IDX {
            let event = available[AVAILABLE_ENTRIES + usize::from(self.size.get())].load(Relaxed);
            event_passed(event, self.next_used, old)
        } else {
            available[AVAILABLE_FLAGS].load(Relaxed) & NO_NOTIFICATION == 0
        }
    }

    fn enable_kicks(&mut self) -> bool {
        if F::EVENT_IDX {
            self.ring.available_event().store(self.next_available, Relaxed);
        } else {
            self.ring.used_header()[USED_FLAGS].store(0, Relaxed);
        }
        if self.log.is_some() {
            self.log_events();
        }
        // Armed before, index read after: pairs with the driver's barrier between publishing and reading
        // the suppression (§2.7.10.1). One of the two sees the other.
        R::Atomics::full_barrier();
        R::Atomics::observe(&self.ring.available()[AVAILABLE_INDEX]) != self.next_available
    }

    fn disable_kicks(&mut self) {
        if F::EVENT_IDX {
            // Just behind: nothing passes it for a whole lap of the index.
            self.ring.available_event().store(self.next_available.wrapping_sub(1), Relaxed);
        } else {
            self.ring.used_header()[USED_FLAGS].store(NO_NOTIFICATION, Relaxed);
        }
        if self.log.is_some() {
            self.log_events();
        }
    }

    #[inline]
    fn flush(&self) -> Option<Flush> {
        self.flush.frames()
    }

    fn position(&self) -> Position {
        Position::Split { next_available: self.next_available, next_used: self.next_used }
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

/// Gives up the lines of these chains' descriptors: the driver writes them anew. The last line stays if
/// there are more descriptors behind the last chain's: they come with the next burst.
#[inline(never)]
fn give_up_descriptors<A: Atomics>(flush: Flush, table: &[SplitDescriptor<A>], chains: &[Chain]) {
    let line = |chain: &Chain| chain.id / LINE;
    for (at, chain) in chains.iter().enumerate() {
        let leaves = match chains.get(at + 1) {
            Some(next) => line(next) != line(chain),
            None => chain.id % LINE == LINE - 1,
        };
        if leaves && let Some(head) = table.get(usize::from(chain.id)) {
            flush.value(head);
        }
    }
}

/// Takes chains of one ordinary descriptor in one direction, up to `count` from available index `at` on;
/// returns how many came before one that takes more than this, or is wrong.
#[inline(never)] // registers of its own: inlined, much of the loop's state lives on the stack
fn take_singles<A: Atomics, const WRITABLE: bool>(
    lender: &mut Lender<'_>,
    chains: &mut Chains,
    table: &[SplitDescriptor<A>],
    entries: &[A::U16],
    (at, count): (u16, u16),
) -> u16 {
    let mask = table.len() - 1;
    let entries = &entries[..=mask];
    if tuning::PREFETCH {
        // All at once, so that their ways overlap. Heads mostly follow each other.
        for i in (0..count).step_by(LINE.into()) {
            let head = entries[usize::from(at.wrapping_add(i)) & mask].load(Relaxed);
            prefetch(&table[usize::from(head) & mask]);
        }
    }
    let expected = if WRITABLE { WRITE } else { 0 };
    let mut taken = 0;
    let mut singles = Singles::<WRITABLE>::new(lender, count.into());
    for chain in chains.spare().iter_mut().take(count.into()) {
        let index = at.wrapping_add(taken);
        let head = entries[usize::from(index) & mask].load(Relaxed);
        let Some(descriptor) = table.get(usize::from(head)) else { break };
        let (address, len, flags) = descriptor.read_unlinked();
        if flags & (NEXT | INDIRECT | WRITE) != expected || !singles.push((address, len), head, index, chain)
        {
            break;
        }
        taken += 1;
    }
    drop(singles);
    chains.add(taken.into());
    taken
}

/// Asks for the indirect tables of the next `count` chains, all at once so that their ways overlap.
#[inline(never)]
fn prefetch_tables<A: Atomics>(
    lender: &Lender<'_>,
    table: &[SplitDescriptor<A>],
    entries: &[A::U16],
    (at, count): (u16, u16),
) {
    if !tuning::PREFETCH {
        return;
    }
    let mask = table.len() - 1;
    for i in 0..count {
        let head = entries[usize::from(at.wrapping_add(i)) & mask].load(Relaxed);
        // A hint: what is believed is read again.
        if let Some(descriptor) = table.get(usize::from(head)).map(SplitDescriptor::read)
            && descriptor.flags & INDIRECT != 0
        {
            lender.prefetch(descriptor.address);
        }
    }
}

/// Follows a chain from its head and lends its buffers.
fn walk<A: Atomics, F: FeatureSet>(
    lender: &mut Lender<'_>,
    table: &[SplitDescriptor<A>],
    head: u16,
    place: Place,
    taken_at: u16,
    work: &mut Work,
) -> Result<Chain, TakeError> {
    let Some(first) = table.get(usize::from(head)) else {
        return Err(TakeError::malformed(Malformed::DescriptorOutOfRange, place, head.into()));
    };
    let mut chain = ChainBuilder::new(lender);
    walk_linked::<A, F>(&mut chain, lender, table, head, first.read(), work)?;
    Ok(chain.finish(lender, head, 1, taken_at))
}

/// The rest of [`walk`]: all but the simplest chains. Bounded by the queue size (§2.7.5.2), and by less where
/// that is long.
#[inline(never)]
fn walk_linked<A: Atomics, F: FeatureSet>(
    chain: &mut ChainBuilder,
    lender: &mut Lender<'_>,
    table: &[SplitDescriptor<A>],
    head: u16,
    first: Read,
    work: &mut Work,
) -> Result<(), TakeError> {
    let (mut index, mut descriptor) = (head, first);
    let most = table.len().min(MAX_CHAIN.into());
    for followed in 0..most {
        let place = Place::Descriptor(index);
        if descriptor.flags & INDIRECT != 0 {
            if !F::INDIRECT {
                return Err(TakeError::malformed(
                    Malformed::IndirectNotNegotiated,
                    place,
                    descriptor.flags.into(),
                ));
            }
            if descriptor.flags & NEXT != 0 {
                return Err(TakeError::malformed(
                    Malformed::IndirectWithNext,
                    place,
                    descriptor.flags.into(),
                ));
            }
            work.followed(followed as u32);
            return walk_indirect(chain, lender, index, descriptor, work);
        }
        chain.add(lender, descriptor.address, descriptor.len, descriptor.flags & WRITE != 0, place)?;
        if descriptor.flags & NEXT == 0 {
            work.followed(followed as u32);
            return Ok(());
        }
        index = descriptor.next;
        descriptor = table
            .get(usize::from(index))
            .ok_or_else(|| TakeError::malformed(Malformed::DescriptorOutOfRange, place, index.into()))?
            .read();
    }
    Err(TakeError::malformed(Malformed::ChainTooLong, Place::Descriptor(head), most as u64))
}

/// A table of descriptors in a buffer of its own (§2.7.5.3).
fn walk_indirect(
    chain: &mut ChainBuilder,
    lender: &mut Lender<'_>,
    head: u16,
    table: Read,
    work: &mut Work,
) -> Result<(), TakeError> {
    let entries = table.len / 16;
    if !table.len.is_multiple_of(16) || entries == 0 || entries > u32::from(MAX_CHAIN) {
        return Err(TakeError::malformed(
            Malformed::IndirectTableSize,
            Place::Descriptor(head),
            table.len.into(),
        ));
    }
    let mut index = 0u16;
    for followed in 0..entries {
        let place = Place::Indirect { of: head, entry: index };
        let mut bytes = [0; 16];
        let address = table.address.wrapping_add(u64::from(index) * 16);
        lender.read(address, &mut bytes).map_err(|fault| TakeError::fault(fault, place))?;
        let descriptor = Read::from_bytes(bytes);
        if descriptor.flags & INDIRECT != 0 {
            return Err(TakeError::malformed(Malformed::IndirectInIndirect, place, descriptor.flags.into()));
        }
        chain.add(lender, descriptor.address, descriptor.len, descriptor.flags & WRITE != 0, place)?;
        if descriptor.flags & NEXT == 0 {
            work.followed(1 + followed);
            return Ok(());
        }
        index = descriptor.next;
        if u32::from(index) >= entries {
            return Err(TakeError::malformed(Malformed::DescriptorOutOfRange, place, index.into()));
        }
    }
    Err(TakeError::malformed(Malformed::ChainTooLong, Place::Descriptor(head), entries.into()))
}
