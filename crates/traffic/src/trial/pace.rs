//! The schedule of frames.

/// A schedule at a constant rate. Frame `n` is due at `n / rate`. A late frame does not delay later ones, and its
/// latency counts from when it was due (coordinated omission).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    interval_ns: f64,
    /// Frames that were sent, refused or missed.
    done: u64,
    /// How far a frame may be late, in frames; later ones are given up as missed.
    slack_frames: u64,
}

/// How long after its time a frame may still be sent: a wake-up of the machine, not a preemption.
const SLACK_NS: f64 = 1e6;

impl Pace {
    pub fn new(frames_per_second: f64) -> Self {
        let interval_ns = 1e9 / frames_per_second;
        Pace { interval_ns, done: 0, slack_frames: (SLACK_NS / interval_ns).ceil().max(64.0) as u64 }
    }

    /// Returns how many frames are due and not done, and how many earlier ones are missed by now. The missed ones
    /// count as done.
    #[inline(always)]
    pub fn due(&mut self, now_ns: u64) -> (u64, u64) {
        let due = (now_ns as f64 / self.interval_ns) as u64 + 1;
        let behind = due.saturating_sub(self.done);
        let missed = behind.saturating_sub(self.slack_frames);
        self.done += missed;
        (behind - missed, missed)
    }

    /// The time at which the frame is due that comes `ahead` frames after the next one.
    #[inline(always)]
    pub fn due_ns(&self, ahead: usize) -> u64 {
        ((self.done + ahead as u64) as f64 * self.interval_ns) as u64
    }

    #[inline(always)]
    pub fn did(&mut self, frames: u64) {
        self.done += frames;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_fall_due_at_their_rate_and_lateness_does_not_add_up() {
        let mut pace = Pace::new(1e6); // one each µs
        assert_eq!(pace.due(0), (1, 0));
        pace.did(1);
        assert_eq!(pace.due(999), (0, 0));
        assert_eq!(pace.due(10_500), (10, 0));
        assert_eq!((pace.due_ns(0), pace.due_ns(9)), (1000, 10_000));
        pace.did(10);
        assert_eq!(pace.due_ns(0), 11_000);
    }

    #[test]
    fn what_is_a_millisecond_late_is_missed_and_not_made_up_for() {
        let mut pace = Pace::new(1e6);
        let (due, missed) = pace.due(5_000_000);
        assert_eq!((due, missed), (1000, 4001));
        assert_eq!(pace.due_ns(0), 4_001_000);
        pace.did(1000);
        assert_eq!(pace.due(5_000_000), (0, 0));
    }
}
