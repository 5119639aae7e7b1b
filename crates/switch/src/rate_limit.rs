//! A token bucket that several workers take from without waiting for each other.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a full bucket holds: tokens of this time, but not fewer than that.
const BURST: Duration = Duration::from_millis(50);
const LEAST_BURST: u64 = 64;

/// So many a second. Kept as the time at which the bucket would be full again (the generic cell rate algorithm of
/// ITU-T I.371), so that it is one word.
#[derive(Debug)]
pub(crate) struct RateLimit {
    epoch: Instant,
    interval_ns: u64,
    burst_ns: u64,
    full_ns: AtomicU64,
}

impl RateLimit {
    /// A full bucket.
    pub fn new(per_second: u32) -> Self {
        let interval_ns = (1_000_000_000 / u64::from(per_second.max(1))).max(1);
        let burst_ns = (BURST.as_nanos() as u64).max(LEAST_BURST * interval_ns);
        RateLimit { epoch: Instant::now(), interval_ns, burst_ns, full_ns: AtomicU64::new(0) }
    }

    /// Takes up to `wanted` tokens at `now`; says how many there were.
    pub fn take(&self, wanted: u64, now: Instant) -> u64 {
        let now_ns = now.saturating_duration_since(self.epoch).as_nanos() as u64;
        let mut taken = 0;
        // Workers disturb each other at most as often as there are workers.
        let _ = self.full_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_ns| {
            let full_ns = full_ns.max(now_ns);
            let there = (now_ns + self.burst_ns).saturating_sub(full_ns) / self.interval_ns;
            taken = wanted.min(there);
            (taken > 0).then(|| full_ns + taken * self.interval_ns)
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let limit = RateLimit::new(20_000);
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
        let limit = RateLimit::new(1);
        assert_eq!(limit.take(100, limit.epoch), 64);
        assert_eq!(limit.take(100, limit.epoch + Duration::from_secs(2)), 2);
        assert_eq!(RateLimit::new(0).interval_ns, 1_000_000_000);
    }

    #[test]
    fn workers_do_not_get_more_together() {
        let limit = RateLimit::new(1000);
        let now = limit.epoch;
        let take = || (0..1000).map(|_| limit.take(1, now)).sum::<u64>();
        let passed = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
        });
        assert_eq!(passed, 64);
    }
}
