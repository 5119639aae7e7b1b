use std::thread;
use std::time::Duration;

use crate::clock::now_ns;

/// A message that leaves later than this after it was due is counted as late.
pub(super) const LATE_NS: u64 = 1_000_000;

/// The time when each message is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    start_ns: u64,
    end_ns: u64,
    /// The interval between messages in ns; 0 sends as fast as possible.
    interval_ns: f64,
}

impl Schedule {
    /// Starts the schedule now.
    pub(super) fn start(duration: Duration, per_second: Option<f64>) -> Self {
        let start_ns = now_ns();
        let interval_ns = per_second.map_or(0.0, |rate| 1e9 / rate);
        Schedule { start_ns, end_ns: start_ns + duration.as_nanos() as u64, interval_ns }
    }

    /// Waits until message `index` is due, and returns that time; `None` at the end. A message of an unpaced flow is
    /// due at once.
    pub(super) fn wait(&self, index: u64) -> Option<u64> {
        let now = now_ns();
        if self.interval_ns == 0.0 {
            return (now < self.end_ns).then_some(now);
        }
        let due_ns = self.start_ns + (index as f64 * self.interval_ns) as u64;
        if due_ns >= self.end_ns {
            return None;
        }
        if now < due_ns {
            thread::sleep(Duration::from_nanos(due_ns - now));
        }
        Some(due_ns)
    }
}
