//! How long an idle worker polls before it sleeps.
use std::time::Duration;

/// The present spin budget.
///
/// A worker on a CPU of its own always has the full budget. A worker that the scheduler places may run on the CPU
/// of the thread that woke it, and then its spinning takes time from that sender. After a long sleep it therefore
/// sleeps again as soon as no frame comes. Only a sleep shorter than the budget, in which spinning would have
/// caught the next frame, restores the budget. KVM grows and shrinks halt polling by the same rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinBudget {
    full: Duration,
    own_cpu: bool,
    now: Duration,
}

impl SpinBudget {
    pub fn new(full: Duration, own_cpu: bool) -> Self {
        SpinBudget { full, own_cpu, now: full }
    }

    /// How long to spin.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Notes that a sleep of length `time` is over.
    pub fn slept(&mut self, time: Duration) {
        self.now = if self.own_cpu || time < self.full { self.full } else { Duration::ZERO };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Duration = Duration::from_micros(60);

    #[test]
    fn a_worker_with_a_cpu_of_its_own_always_spins() {
        let mut budget = SpinBudget::new(FULL, true);
        budget.slept(Duration::from_secs(1));
        assert_eq!(budget.now(), FULL);
    }

    #[test]
    fn a_long_sleep_takes_the_budget_and_a_short_one_gives_it_back() {
        let mut budget = SpinBudget::new(FULL, false);
        assert_eq!(budget.now(), FULL);
        budget.slept(FULL);
        assert_eq!(budget.now(), Duration::ZERO);
        budget.slept(FULL - Duration::from_nanos(1));
        assert_eq!(budget.now(), FULL);
        // Without a budget there is none to give back.
        let mut none = SpinBudget::new(Duration::ZERO, false);
        none.slept(Duration::ZERO);
        assert_eq!(none.now(), Duration::ZERO);
    }
}
