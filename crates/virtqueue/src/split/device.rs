//! The device half of a split ring: pops available chains and gives used ones back.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;

use memory::{Demotion, SgBuilder, Translator, prefetch};

use super::demote::demote_descriptors;
use super::flags::{INDIRECT, NEXT, WRITE};
use super::ring::{AVAILABLE_ENTRIES, AVAILABLE_FLAGS, AVAILABLE_INDEX, LINE, USED_FLAGS, USED_INDEX};
use super::walk::{prefetch_tables, walk};
use super::{NO_NOTIFICATION, SplitDescriptor, SplitRing};
use crate::atomics::{Atomics, Word};
use crate::chain::{Chain, Singles, batches};
use crate::chains::Chains;
use crate::device::{Device, DeviceRing, Popped, UsedLog};
use crate::error::{Malformed, Place, PopError, RingError};
use crate::inflight::SplitInFlight;
use crate::position::event_passed;
use crate::work::Work;
use crate::{Burst, FeatureSet, Position, QueueSize, tuning};

/// A running split ring as the device sees it.
pub type SplitDevice<R, F> = Device<SplitDeviceRing<R, F>>;

/// The part of a split ring's device half that differs from a packed ring's.
pub struct SplitDeviceRing<R, F> {
    pub(super) ring: R,
    pub(super) size: QueueSize,
    /// The next entry of the available ring to pop.
    pub(super) next_available: u16,
    /// The available index as last read. It is not read again while it suffices.
    pub(super) available_seen: u16,
    /// The next entry of the used ring to write.
    pub(super) next_used: u16,
    /// Whether the last walked chain was only writable. In most queues either all chains are, or none.
    pub(super) writable: bool,
    pub(super) in_flight: Option<SplitInFlight>,
    pub(super) features: PhantomData<F>,
}

impl<R: SplitRing, F: FeatureSet> SplitDeviceRing<R, F> {
    /// Number of chains that can be popped, observing the index again if fewer than `wanted` are known.
    #[inline(always)]
    fn available(&mut self, wanted: usize) -> Result<u16, PopError> {
        let known = self.available_seen.wrapping_sub(self.next_available);
        if usize::from(known) >= wanted {
            return Ok(known);
        }
        // Acquire: pairs with the driver's release of the index; entries and descriptors before it are
        // visible now (§2.7.13.3).
        let index = R::Atomics::observe(&self.ring.available()[AVAILABLE_INDEX]);
        // A driver that turns its index back behind what was popped lands here as an empty ring or as this
        // error; either way nothing is popped twice.
        let fresh = index.wrapping_sub(self.next_available);
        if index.wrapping_sub(self.next_used) > self.size.get() || fresh > self.size.get() {
            let place = Place::AvailableIndex;
            return Err(PopError::malformed(Malformed::AvailableTooFarAhead, place, index.into()));
        }
        self.available_seen = index;
        Ok(fresh)
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
}

impl<R: SplitRing + Send, F: FeatureSet> DeviceRing for SplitDeviceRing<R, F> {
    type Atomics = R::Atomics;
    type Used = u16;

    #[inline(always)]
    fn size(&self) -> QueueSize {
        self.size
    }

    fn position(&self) -> Position {
        Position::Split { next_available: self.next_available, next_used: self.next_used }
    }

    #[inline(always)]
    fn next_used(&self) -> u16 {
        self.next_used
    }

    #[inline(always)]
    fn pop(&mut self, translator: &mut Translator, burst: &mut Burst, max: usize) -> Popped {
        let mut count = match self.available(max) {
            Ok(count) => max.min(usize::from(count)) as u16,
            Err(error) => return (0, Some(error)),
        };
        let table = self.ring.descriptors();
        let entries = &self.ring.available()[AVAILABLE_ENTRIES..];
        let mask = self.size.get() - 1;
        let mut builder = translator.builder(&mut burst.arena);
        let mut stopped = None;
        // Chains mostly are what the last one was: behind a longer one singles are not looked for at once.
        let mut single = true;
        burst.work.begin();
        let mut i = 0;
        while i < count {
            let at = self.next_available.wrapping_add(i);
            if single {
                let singles = if self.writable {
                    pop_singles::<R::Atomics, true>
                } else {
                    pop_singles::<R::Atomics, false>
                };
                i += singles(&mut builder, &mut burst.chains, table, entries, (at, count - i));
                if i == count {
                    break;
                }
            }
            // The next chain is no simple one, is of the other direction, or is no chain at all.
            let at = self.next_available.wrapping_add(i);
            let entry = at & mask;
            let head = entries[usize::from(entry)].load(Relaxed);
            let (first, place) = (builder.len(), Place::Available(entry));
            match walk::<R::Atomics, F>(&mut builder, table, head, place, at, &mut burst.work) {
                Ok(chain) => {
                    self.writable = chain.readable_bytes == 0;
                    if !chain.is_single() {
                        burst.work.chain(&chain);
                        if single {
                            prefetch_tables(&builder, table, entries, (at, count - i));
                        }
                    }
                    single = chain.is_single();
                    burst.chains.push(chain);
                    if burst.work.is_enough() {
                        count = i + 1;
                    }
                }
                Err(error) => {
                    builder.truncate(first);
                    stopped = Some(error);
                    count = i;
                    break;
                }
            }
            i += 1;
        }
        if let Some(in_flight) = &mut self.in_flight {
            let from = burst.chains.len() - usize::from(count);
            in_flight.pop(burst.chains[from..].iter().map(|chain| chain.id));
        }
        self.next_available = self.next_available.wrapping_add(count);
        (count.into(), stopped)
    }

    #[inline(always)]
    fn has_resubmit(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|in_flight| in_flight.peek_resubmit().is_some())
    }

    fn pop_resubmitted(
        &mut self,
        builder: &mut SgBuilder<'_>,
        work: &mut Work,
    ) -> Option<Result<Chain, PopError>> {
        let in_flight = self.in_flight.as_mut()?;
        let head = in_flight.peek_resubmit()?;
        let popped_at = self.next_available.wrapping_sub(in_flight.resubmit_len());
        let table = self.ring.descriptors();
        let chain = walk::<R::Atomics, F>(builder, table, head, Place::InFlight(head), popped_at, work);
        if chain.is_ok() {
            in_flight.resubmitted();
        }
        Some(chain)
    }

    fn rewind(&mut self, chains: &[Chain]) -> bool {
        if chains.last().is_none_or(|chain| chain.popped_at.wrapping_add(1) != self.next_available) {
            return false;
        }
        let heads = chains.iter().map(|chain| chain.id);
        let may = self.in_flight.as_mut().is_none_or(|region| region.rewind(heads));
        if may {
            self.next_available = self.next_available.wrapping_sub(chains.len() as u16);
        }
        may
    }

    #[inline(always)]
    fn add_used(&mut self, chains: &mut [Chain], demotion: Option<Demotion>) {
        if F::IN_ORDER {
            // The used entry of a batch implies those before it, so order is the caller's duty.
            debug_assert_eq!(chains[0].popped_at, self.next_used, "use in the order popped");
        }
        self.write_used(chains);
        // Release: pairs with the driver's acquire of the index; the entries above are visible before it
        // (§2.7.8.2). One store for the whole burst.
        let publish = |index| R::Atomics::publish(&self.ring.used_header()[USED_INDEX], index);
        if let Some(in_flight) = &mut self.in_flight {
            // One by one, as recovery needs it (vhost-user, "Inflight I/O tracking"): at most the last batch is
            // in doubt.
            in_flight.add_used(chains.iter().map(|chain| chain.id), self.next_used, publish);
        } else {
            if let Some(demotion) = demotion {
                demote_descriptors(demotion, self.ring.descriptors(), chains);
            }
            publish(self.next_used);
        }
    }

    fn demotes_descriptors(&self) -> bool {
        self.in_flight.is_none()
    }

    #[inline(always)]
    fn used_since(&self, from: u16) -> u16 {
        self.next_used.wrapping_sub(from)
    }

    #[inline(always)]
    fn wants_call(&self, uncalled: u32) -> bool {
        let available = self.ring.available();
        if F::EVENT_IDX {
            let event = available[AVAILABLE_ENTRIES + usize::from(self.size.get())].load(Relaxed);
            let old = self.next_used.wrapping_sub(uncalled as u16);
            uncalled > u16::MAX.into() || event_passed(event, self.next_used, old)
        } else {
            available[AVAILABLE_FLAGS].load(Relaxed) & NO_NOTIFICATION == 0
        }
    }

    fn arm_kicks(&self) {
        if F::EVENT_IDX {
            self.ring.available_event().store(self.next_available, Relaxed);
        } else {
            self.ring.used_header()[USED_FLAGS].store(0, Relaxed);
        }
    }

    fn disarm_kicks(&self) {
        if F::EVENT_IDX {
            // Just behind: nothing passes it for a whole lap of the index.
            self.ring.available_event().store(self.next_available.wrapping_sub(1), Relaxed);
        } else {
            self.ring.used_header()[USED_FLAGS].store(NO_NOTIFICATION, Relaxed);
        }
    }

    fn available_chains(&self) -> u16 {
        let index = R::Atomics::observe(&self.ring.available()[AVAILABLE_INDEX]);
        index.wrapping_sub(self.next_available).min(self.size.get())
    }

    fn is_available(&self) -> bool {
        R::Atomics::observe(&self.ring.available()[AVAILABLE_INDEX]) != self.next_available
    }

    fn mark_used(&self, log: &UsedLog, from: u16) -> Result<(), RingError> {
        log.mark_split_used(from, self.next_used, self.size)
    }

    fn mark_events(&self, log: &UsedLog) -> Result<(), RingError> {
        log.mark_split_events(self.size)
    }
}

/// Pops chains of one ordinary descriptor in one direction, up to `count` from available index `at` on;
/// returns how many came before one that takes more than this, or is wrong.
#[inline(never)] // registers of its own: inlined, much of the loop's state lives on the stack
fn pop_singles<A: Atomics, const WRITABLE: bool>(
    builder: &mut SgBuilder<'_>,
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
    let mut popped = 0;
    let mut singles = Singles::<WRITABLE>::new(builder, count.into());
    for chain in chains.spare().iter_mut().take(count.into()) {
        let index = at.wrapping_add(popped);
        let head = entries[usize::from(index) & mask].load(Relaxed);
        let Some(descriptor) = table.get(usize::from(head)) else { break };
        let (address, len, flags) = descriptor.read_unlinked();
        if flags & (NEXT | INDIRECT | WRITE) != expected || !singles.push((address, len), head, index, chain)
        {
            break;
        }
        popped += 1;
    }
    drop(singles);
    chains.add(popped.into());
    popped
}
