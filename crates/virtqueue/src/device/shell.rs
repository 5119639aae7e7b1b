//! The device half of a queue: the code that split and packed rings share.

use std::ops::Range;
use std::sync::Arc;

use memory::{AddressSpace, Translator};

use super::owner::fresh_owner;
use super::{DeviceQueue, DeviceRing, UsedLog};
use crate::atomics::Atomics;
use crate::error::{PopError, RingError};
use crate::{Burst, Position, QueueSize};

/// A running queue as the device sees it.
#[repr(align(128))] // lines of its own: workers write to neighbouring queues
pub struct Device<R: DeviceRing> {
    pub(crate) ring: R,
    owner: u64,
    pub(super) translator: Translator,
    /// Chains popped since the queue began, minus rewound ones. Distinguishes passes over the same place of the ring.
    popped: u64,
    /// Entries (split) or slots (packed) used since the last decision about a call, by number: a position says the same
    /// after two laps. `None` makes the next decision a yes.
    uncalled: Option<u32>,
    pub(super) broken: Option<RingError>,
    pub(super) log: Option<UsedLog>,
}

impl<R: DeviceRing> Device<R> {
    /// The driver has not been called for the `uncalled` entries or slots that were used last.
    pub(crate) fn of_ring(
        ring: R,
        translator: Translator,
        log: Option<UsedLog>,
        uncalled: Option<u16>,
    ) -> Self {
        let uncalled = uncalled.map(u32::from);
        Device { ring, owner: fresh_owner(), translator, popped: 0, uncalled, broken: None, log }
    }

    /// Chains of which none is used yet.
    #[inline(always)]
    fn add_used_run(&mut self, burst: &mut Burst, range: Range<usize>) {
        if self.log.is_some() {
            return self.add_used_logged(burst, range);
        }
        self.publish_used(burst, range);
    }

    /// Publishes used entries for chains of which none is used yet, at most as many as the ring holds.
    #[inline(always)]
    pub(super) fn publish_used(&mut self, burst: &mut Burst, range: Range<usize>) {
        let from = self.ring.next_used();
        burst.open -= range.len();
        self.ring.add_used(&mut burst.chains[range], burst.demotion);
        let used = u32::from(self.ring.used_since(from));
        self.uncalled = self.uncalled.map(|before| before.saturating_add(used));
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
        self.popped += popped as u64;
        burst.popped_to = self.popped;
        stopped.map_or(Ok(popped), |error| self.stop(popped, error))
    }

    fn rewind(&mut self, burst: &mut Burst, from: usize) -> usize {
        let is_latest = burst.owner == self.owner && burst.popped_to == self.popped;
        if !is_latest || !burst.all_open(from) || !self.ring.rewind(&burst.chains[from..]) {
            return 0;
        }
        let count = burst.len() - from;
        self.popped -= count as u64;
        burst.popped_to = self.popped;
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
        let Some(uncalled) = self.uncalled.replace(0) else { return true };
        if uncalled == 0 {
            return false;
        }
        // Used entries published before, suppression read after: pairs with the driver's barrier between
        // arming and looking at the ring (§2.7.7.2, §2.8.10.1.1).
        R::Atomics::full_barrier();
        self.ring.wants_call(uncalled)
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

    fn available(&self) -> u16 {
        self.ring.available_chains()
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
