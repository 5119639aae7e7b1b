//! A token bucket that several workers take from without waiting for each other.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A full bucket has the tokens of this time, but not fewer than its least burst.
const BURST: Duration = Duration::from_millis(50);

const SECOND_NS: u64 = 1_000_000_000;

/// A limit of events a second. The state is the time at which the bucket would be full again (the generic cell
/// rate algorithm of ITU-T I.371), so it is one word.
#[derive(Debug)]
pub struct RateLimit {
    epoch: Instant,
    per_second: u64,
    burst_ns: u64,
    full_ns: AtomicU64,
}

impl RateLimit {
    /// Frames that may come in one burst, even at the lowest rate.
    pub const LEAST_FRAMES: u64 = 64;
    /// The highest rate. A higher value is taken as this one.
    pub const MOST_PER_SECOND: u64 = 100_000_000_000;

    /// The largest burst; more is taken as this.
    pub const MOST_BURST: u64 = 4_000_000_000;

    /// A full bucket, which holds no fewer than `least_burst` tokens (at most a million).
    pub fn new(per_second: u64, least_burst: u64) -> Self {
        let per_second = per_second.clamp(1, Self::MOST_PER_SECOND);
        let least_ns = (least_burst.min(1_000_000) * SECOND_NS).div_ceil(per_second);
        let burst_ns = (BURST.as_nanos() as u64).max(least_ns);
        RateLimit { epoch: Instant::now(), per_second, burst_ns, full_ns: AtomicU64::new(0) }
    }

    /// A full bucket of `burst` tokens, at most [`RateLimit::MOST_BURST`].
    pub fn with_burst(per_second: u64, burst: u64) -> Self {
        let per_second = per_second.clamp(1, Self::MOST_PER_SECOND);
        let burst_ns = (burst.clamp(1, Self::MOST_BURST) * SECOND_NS).div_ceil(per_second);
        RateLimit { epoch: Instant::now(), per_second, burst_ns, full_ns: AtomicU64::new(0) }
    }

    fn cost_ns(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(SECOND_NS).div_ceil(self.per_second)
    }

    /// Takes up to `wanted` tokens at `now`, and returns how many it took.
    pub fn take(&self, wanted: u64, now: Instant) -> u64 {
        self.take_some(now, |there| wanted.min(there))
    }

    /// Takes the number of tokens that `choose` returns for those available. `choose` may be called again with
    /// another number.
    pub fn take_some(&self, now: Instant, choose: impl Fn(u64) -> u64) -> u64 {
        let now_ns = now.saturating_duration_since(self.epoch).as_nanos() as u64;
        let mut taken = 0;
        // Workers disturb each other at most as often as there are workers.
        let _ = self.full_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_ns| {
            let full_ns = full_ns.max(now_ns);
            let there_ns = (now_ns + self.burst_ns).saturating_sub(full_ns);
            // No overflow: tokens of 50 ms at the highest rate, or of the largest burst, in nanoseconds.
            taken = choose(there_ns * self.per_second / SECOND_NS);
            (taken > 0).then(|| full_ns + self.cost_ns(taken))
        });
        taken
    }

    /// Puts back tokens that were taken and not used.
    pub fn give_back(&self, tokens: u64) {
        self.full_ns.fetch_sub(self.cost_ns(tokens), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let limit = RateLimit::new(20_000, 64);
        let begin = limit.epoch;
        assert_eq!(limit.take(5000, begin), 1000, "50 ms of it");
        assert_eq!(limit.take(1, begin), 0);
        let mut passed = 0;
        for ms in 1..=1000 {
            passed += limit.take(32, begin + Duration::from_millis(ms));
        }
        assert_eq!(passed, 20_000);
        assert_eq!(limit.take(5000, begin + Duration::from_secs(3600)), 1000, "no more is saved up");
    }

    #[test]
    fn a_low_limit_lets_a_few_pass_at_once() {
        let limit = RateLimit::new(1, 64);
        assert_eq!(limit.take(100, limit.epoch), 64);
        assert_eq!(limit.take(100, limit.epoch + Duration::from_secs(2)), 2);
        assert_eq!(RateLimit::new(0, 1).per_second, 1);
        let lowest = RateLimit::new(1, u64::MAX);
        assert_eq!(lowest.take(u64::MAX, lowest.epoch), 1_000_000);
    }

    #[test]
    fn a_burst_of_its_own_passes_and_no_more() {
        for (per_second, burst) in [(1, 300), (20_000, 5), (RateLimit::MOST_PER_SECOND, 1000), (1, u64::MAX)]
        {
            let limit = RateLimit::with_burst(per_second, burst);
            let meant = burst.min(RateLimit::MOST_BURST);
            assert_eq!(limit.take(u64::MAX, limit.epoch), meant, "{per_second}");
            assert_eq!(limit.take(1, limit.epoch), 0);
            let later = limit.epoch + Duration::from_secs(1);
            assert_eq!(limit.take(u64::MAX, later), per_second.min(meant), "{per_second}");
        }
        assert_eq!(RateLimit::with_burst(0, 0).burst_ns, SECOND_NS);
    }

    #[test]
    fn a_high_limit_is_kept() {
        for per_second in [1_250_000_000, RateLimit::MOST_PER_SECOND] {
            let limit = RateLimit::new(per_second, 65_536);
            let mut passed = limit.take(u64::MAX, limit.epoch);
            for us in 1..=100_000 {
                passed += limit.take(u64::MAX, limit.epoch + Duration::from_micros(us));
            }
            let meant = per_second / 20 + per_second / 10;
            assert!(passed <= meant && passed > meant - meant / 500, "{passed} of {meant}");
        }
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let limit = RateLimit::new(1000, 64);
        assert_eq!(limit.take(64, limit.epoch), 64);
        limit.give_back(10);
        assert_eq!(limit.take(64, limit.epoch), 10);
    }

    #[test]
    fn workers_do_not_get_more_together() {
        let limit = RateLimit::new(1000, 64);
        let now = limit.epoch;
        let take = || (0..1000).map(|_| limit.take(1, now)).sum::<u64>();
        let passed = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(passed, 64);
    }
}
