//! Whether a worker is stuck, judged by repeated observations and never by a single one.
//!
//! A worker that works or polls completes passes. A worker that sleeps is in no queue. A worker that does neither
//! for long is therefore stuck in a queue, or the scheduler does not run it. The two are distinguished: time
//! counts only while the thread is blocked or uses its CPU. Between two observations at most the planned interval
//! counts, even if this process was stopped or the machine suspended for longer.
use std::time::{Duration, Instant};

use crate::heartbeat::ThreadState;

/// Looks in the time after which a worker counts as stuck.
const OBSERVATIONS: u32 = 4;

/// The observations of one worker.
#[derive(Debug)]
pub(crate) struct Watchdog {
    deadline: Duration,
    last: Option<Observation>,
    stuck: Duration,
}

#[derive(Debug)]
struct Observation {
    at: Instant,
    passes: u64,
    cpu: Option<Duration>,
}

impl Watchdog {
    pub fn new(deadline: Duration) -> Self {
        Watchdog { deadline, last: None, stuck: Duration::ZERO }
    }

    /// The longest time between two observations.
    pub fn interval(deadline: Duration) -> Duration {
        (deadline / OBSERVATIONS).max(Duration::from_millis(1))
    }

    /// Adds an observation at `at`: how many passes the worker has made, and whether it sleeps. The thread's state
    /// is read only if these do not decide. Returns how long the worker has been stuck, if it is.
    pub fn observe(
        &mut self,
        at: Instant,
        passes: u64,
        is_asleep: bool,
        state: impl FnOnce() -> Option<ThreadState>,
    ) -> Option<Duration> {
        let unmoved = self.last.as_ref().filter(|last| last.passes == passes && !is_asleep);
        let Some(last) = unmoved else {
            self.stuck = Duration::ZERO;
            self.last = Some(Observation { at, passes, cpu: None });
            return None;
        };
        let elapsed = at.saturating_duration_since(last.at).min(Self::interval(self.deadline));
        let (stuck, cpu) = match state() {
            // Without the kernel's word it is taken for blocked.
            Some(ThreadState::Blocked) | None => (elapsed, last.cpu),
            Some(ThreadState::Stopped) => (Duration::ZERO, last.cpu),
            Some(ThreadState::Runnable { cpu }) => {
                let used = last.cpu.map_or(Duration::ZERO, |before| cpu.saturating_sub(before));
                (used.min(elapsed), Some(cpu))
            }
        };
        self.stuck += stuck;
        self.last = Some(Observation { at, passes, cpu });
        (self.stuck >= self.deadline).then_some(self.stuck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_millis(1000);
    const INTERVAL: Duration = Duration::from_millis(250);

    /// Observes a worker without progress at regular intervals; returns the number of observations after which it
    /// counts as stuck.
    fn looks(state: impl Fn(u32) -> Option<ThreadState>) -> Option<u32> {
        let (mut dog, begin) = (Watchdog::new(DEADLINE), Instant::now());
        assert_eq!(dog.observe(begin, 5, false, || unreachable!()), None);
        (1..100).find(|n| dog.observe(begin + *n * INTERVAL, 5, false, || state(*n)).is_some())
    }

    #[test]
    fn one_that_is_blocked_or_spins_for_the_deadline_is_stuck() {
        assert_eq!(Watchdog::interval(DEADLINE), INTERVAL);
        assert_eq!(looks(|_| Some(ThreadState::Blocked)), Some(4));
        assert_eq!(looks(|_| None), Some(4));
        let spins = |n| Some(ThreadState::Runnable { cpu: Duration::from_secs(7) + n * INTERVAL });
        assert_eq!(looks(spins), Some(5), "the first look says only where it began");
    }

    #[test]
    fn one_that_does_not_get_to_run_is_not_stuck() {
        assert_eq!(looks(|_| Some(ThreadState::Runnable { cpu: Duration::from_secs(7) })), None);
        assert_eq!(looks(|_| Some(ThreadState::Stopped)), None);
        // It gets a tenth of a CPU.
        let little = |n| Some(ThreadState::Runnable { cpu: n * INTERVAL / 10 });
        assert!(looks(little).unwrap() > 40);
    }

    #[test]
    fn passes_and_sleep_are_progress() {
        let (mut dog, mut now) = (Watchdog::new(DEADLINE), Instant::now());
        for n in 0..1000 {
            now += INTERVAL;
            assert_eq!(dog.observe(now, n / 3, false, || Some(ThreadState::Blocked)), None);
        }
        for _ in 0..1000 {
            now += INTERVAL;
            assert_eq!(dog.observe(now, 7, true, || Some(ThreadState::Blocked)), None);
        }
    }

    /// SIGSTOP and SIGCONT, or a laptop that was closed: neither thread has run.
    #[test]
    fn time_in_which_nobody_looked_counts_as_one_interval() {
        let (mut dog, begin) = (Watchdog::new(DEADLINE), Instant::now());
        let blocked = || Some(ThreadState::Blocked);
        assert_eq!(dog.observe(begin, 5, false, blocked), None);
        let hour = begin + Duration::from_secs(3600);
        assert_eq!(dog.observe(hour, 5, false, blocked), None);
        assert_eq!(dog.observe(hour + Duration::from_secs(3600), 5, false, blocked), None);
        assert_eq!(dog.observe(hour + Duration::from_secs(3601), 6, false, blocked), None);
    }
}
