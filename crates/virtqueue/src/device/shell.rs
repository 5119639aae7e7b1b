//! The device half of a queue: all of it that split and packed rings share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{AddressSpace, Demotion, SgBuilder, Translator};

use super::{DeviceQueue, UsedLog};
use crate::atomics::Atomics;
use crate::chain::Chain;
use crate::error::{PopError, RingError};
use crate::work::Work;
use crate::{Burst, Position, QueueSize};

/// A running ring as the device sees it: what differs between the layouts. It says what it found; [`Device`]
/// keeps the errors, the log and the burst's books.
pub trait DeviceRing: Send {
    /// The atomics it is made of.
    type Atomics: Atomics;
    /// How far the used side is.
    type Used: Copy + PartialEq + Send;

    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// Where the ring stands.
    fn position(&self) -> Position;

    /// Where the next used entry goes.
    fn next_used(&self) -> Self::Used;

    /// Pops up to `max` chains to the end of `burst`.
    fn pop(&mut self, translator: &mut Translator, burst: &mut Burst, max: usize) -> Popped;

    /// Whether chains are left that a previous process had popped and not used.
    fn has_resubmit(&self) -> bool;

    /// The next of those, in their old order.
    fn pop_resubmitted(
        &mut self,
        builder: &mut SgBuilder<'_>,
        work: &mut Work,
    ) -> Option<Result<Chain, PopError>>;

    /// Takes chains back as if they had not been popped; false, and nothing is changed, unless the last of them
    /// is the one that was popped last.
    fn rewind(&mut self, chains: &[Chain]) -> bool;

    /// Writes used entries for the chains and publishes them at once; demotes the lines of their descriptors if
    /// it can.
    fn add_used(&mut self, chains: &mut [Chain], demotion: Option<Demotion>);

    /// Whether [`DeviceRing::add_used`] can demote lines.
    fn demotes_descriptors(&self) -> bool;

    /// Whether the driver wants a call for what was used since `old`; a full barrier has been.
    fn wants_call(&self, old: Self::Used) -> bool;

    /// Asks for kicks; a full barrier follows.
    fn arm_kicks(&self);

    /// Asks for no kicks.
    fn disarm_kicks(&self);

    /// Whether something is available.
    fn is_available(&self) -> bool;

    /// Marks the used entries that have been stored since `from`.
    fn mark_used(&self, log: &UsedLog, from: Self::Used) -> Result<(), RingError>;

    /// Marks what asks for kicks: it has been stored.
    fn mark_events(&self, log: &UsedLog) -> Result<(), RingError>;
}

/// Chains that were popped, and why no more were, if something is wrong.
pub type Popped = (usize, Option<PopError>);

/// A running queue as the device sees it.
pub struct Device<R: DeviceRing> {
    pub(crate) ring: R,
    owner: u64,
    translator: Translator,
    /// Where the used side was at the last decision about a call; `None` makes the next decision a yes.
    called_at: Option<R::Used>,
    broken: Option<RingError>,
    log: Option<UsedLog>,
}

/// A number that no other queue of this process has.
fn fresh_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<R: DeviceRing> Device<R> {
    pub(crate) fn of_ring(ring: R, translator: Translator, log: Option<UsedLog>, fresh: bool) -> Self {
        let called_at = fresh.then_some(ring.next_used());
        Device { ring, owner: fresh_owner(), translator, called_at, broken: None, log }
    }

    #[cold]
    fn stop(&mut self, popped: usize, error: PopError) -> Result<usize, PopError> {
        if let PopError::Malformed(malformed) = error {
            self.broken = Some(malformed);
        }
        // What came before the bad chain is good; the error comes with the next call.
        if popped > 0 { Ok(popped) } else { Err(error) }
    }

    /// Chains that a previous process had popped and not used come first, in their old order.
    #[cold]
    fn pop_resubmitted(&mut self, burst: &mut Burst, max: usize) -> Popped {
        burst.work.begin();
        let mut popped = 0;
        while popped < max && !burst.work.is_enough() {
            let mut builder = self.translator.builder(&mut burst.arena);
            let first = builder.len();
            match self.ring.pop_resubmitted(&mut builder, &mut burst.work) {
                None => break,
                Some(Ok(chain)) => {
                    burst.work.chain(&chain);
                    burst.chains.push(chain);
                    popped += 1;
                }
                Some(Err(error)) => {
                    builder.truncate(first);
                    return (popped, Some(error));
                }
            }
        }
        (popped, None)
    }

    /// Chains of which none is used yet.
    #[inline(always)]
    fn add_used_run(&mut self, burst: &mut Burst, range: Range<usize>) {
        if self.log.is_some() {
            return self.add_used_logged(burst, range);
        }
        burst.open -= range.len();
        self.ring.add_used(&mut burst.chains[range], burst.demotion);
    }

    /// Buffers are marked before their used entries can be seen, the entries behind the store that shows them: a
    /// front-end that copied the page between mark and store would not have it.
    #[cold]
    #[inline(never)]
    fn add_used_logged(&mut self, burst: &mut Burst, range: Range<usize>) {
        let Some(log) = &self.log else { return };
        for chain in &burst.chains[range.clone()] {
            let marked = log.mark_buffers(&self.translator, burst.writable(chain), chain.written);
            if let Err(error) = marked {
                self.broken.get_or_insert(error);
            }
        }
        let from = self.ring.next_used();
        burst.open -= range.len();
        self.ring.add_used(&mut burst.chains[range], burst.demotion);
        if let Err(error) = self.ring.mark_used(log, from) {
            self.broken.get_or_insert(error);
        }
    }

    #[cold]
    fn log_events(&mut self) {
        let Some(log) = &self.log else { return };
        if let Err(error) = self.ring.mark_events(log) {
            self.broken.get_or_insert(error);
        }
    }
}

impl<R: DeviceRing> DeviceQueue for Device<R> {
    fn size(&self) -> QueueSize {
        self.ring.size()
    }

    fn pop(&mut self, burst: &mut Burst, max: usize) -> Result<usize, PopError> {
        if let Some(error) = self.broken {
            return Err(error.into());
        }
        burst.begin(self.owner);
        let max = max.min(burst.room());
        let (popped, stopped) = match self.ring.has_resubmit() {
            false => self.ring.pop(&mut self.translator, burst, max),
            true => self.pop_resubmitted(burst, max),
        };
        burst.open += popped;
        match stopped {
            None => Ok(popped),
            Some(error) => self.stop(popped, error),
        }
    }

    fn rewind(&mut self, burst: &mut Burst, from: usize) -> usize {
        if burst.owner != self.owner || !burst.all_open(from) || !self.ring.rewind(&burst.chains[from..]) {
            return 0;
        }
        let count = burst.len() - from;
        burst.truncate(from);
        count
    }

    fn add_used(&mut self, burst: &mut Burst, chains: Range<usize>) {
        if burst.owner != self.owner || chains.is_empty() {
            return;
        }
        if burst.open == burst.chains.len() {
            return self.add_used_run(burst, chains);
        }
        let mut at = chains.start;
        while at < chains.end {
            let start = at;
            while at < chains.end && !burst.chains[at].done {
                at += 1;
            }
            if start < at {
                self.add_used_run(burst, start..at);
            } else {
                at += 1;
            }
        }
    }

    fn needs_call(&mut self) -> bool {
        let Some(old) = self.called_at.replace(self.ring.next_used()) else { return true };
        if old == self.ring.next_used() {
            return false;
        }
        // Used entries published before, suppression read after: pairs with the driver's barrier between
        // arming and looking at the ring (§2.7.7.2, §2.8.10.1.1).
        R::Atomics::full_barrier();
        self.ring.wants_call(old)
    }

    fn enable_kicks(&mut self) -> bool {
        self.ring.arm_kicks();
        if self.log.is_some() {
            self.log_events();
        }
        // Armed before, ring read after: pairs with the driver's barrier between publishing and reading
        // the suppression (§2.7.10.1, §2.8.21.3). One of the two sees the other.
        R::Atomics::full_barrier();
        self.ring.is_available()
    }

    fn disable_kicks(&mut self) {
        self.ring.disarm_kicks();
        if self.log.is_some() {
            self.log_events();
        }
    }

    fn demotes_descriptors(&self) -> bool {
        self.ring.demotes_descriptors()
    }

    fn position(&self) -> Position {
        self.ring.position()
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
