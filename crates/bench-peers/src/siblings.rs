//! Trials on cores that their SMT siblings leave alone. Where a host runs other work on the second thread of a core, that core does half as much;
//! it is time stolen that no counter of a guest tells, and it comes and goes within seconds.
use std::time::Duration;

use anyhow::Context;
use measure::siblings::Baseline;

use crate::bench::Bench;
use crate::cell::{Cell, Link, is_headline};
use crate::order::Order;

/// A core that takes this much longer than it did at best in this run has its other thread at work. It takes up to
/// twice as long; where the other thread does little but wait for memory, a sixth longer.
const SHARED: f64 = 1.08;
/// The part of the time so far that may go into waiting for undisturbed cores.
const WAITING_SHARE: f64 = 0.4;
const PAUSE: Duration = Duration::from_millis(10);

/// What the driver's core took for some arithmetic, and the switch's.
pub type ArithmeticNs = [f64; 2];

/// What is known of the cores' other threads.
#[derive(Default)]
pub struct Siblings {
    baseline: Baseline,
    waited: Duration,
}

impl Siblings {
    /// Takes what was measured; whether a core was shared then.
    fn is_shared(&mut self, now_ns: ArithmeticNs) -> bool {
        !self.baseline.disturbed(&now_ns, SHARED).is_empty()
    }
}

impl Bench<'_> {
    /// What arithmetic takes the cores while the systems rest, and whether one of them is shared.
    pub fn look_at_siblings(&mut self) -> anyhow::Result<(ArithmeticNs, bool)> {
        let (driver_cpu, switch_cpu) = self.place.cpus();
        let now_ns = traffic::siblings::arithmetic_ns([driver_cpu, switch_cpu]);
        let now_ns = now_ns.context("measuring what the cores can do")?;
        Ok((now_ns, self.siblings.is_shared(now_ns)))
    }

    /// Waits until both cores are SMT-undisturbed, as long as that is worth it.
    pub fn wait_for_undisturbed_cores(&mut self, cell: &Cell) -> anyhow::Result<(ArithmeticNs, bool)> {
        loop {
            let (now_ns, shared) = self.look_at_siblings()?;
            if !shared || !self.may_wait(cell) {
                return Ok((now_ns, shared));
            }
            self.place.interrupt.pause(PAUSE)?;
            self.siblings.waited += PAUSE;
        }
    }

    /// For the smallest and the largest frames, and while there is time.
    pub fn may_wait(&self, cell: &Cell) -> bool {
        let Order { noise_limits, begin, .. } = *self.order;
        let of_use = matches!(cell.link, Link::Ring(_)) && is_headline(cell.frame_bytes);
        let waited_much = self.siblings.waited > begin.elapsed().mul_f64(WAITING_SHARE);
        noise_limits && of_use && !waited_much && !self.is_behind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_held_against_its_own_best() {
        let mut siblings = Siblings::default();
        assert!(!siblings.is_shared([5000.0, 9000.0]), "nothing else is known");
        assert!(!siblings.is_shared([5200.0, 5000.0]));
        assert!(siblings.is_shared([5200.0, 5800.0]));
        assert!(siblings.is_shared([5800.0, 5000.0]));
        assert!(!siblings.is_shared([5300.0, 5300.0]));
    }
}
