//! Limits on how often a peer may cause an action or a log line. They belong to a device, so a new connection does
//! not reset them.
use std::fmt::Display;
use std::time::{Duration, Instant};

/// Allows a number of events at once, and then one for each interval that has passed.
#[derive(Debug)]
pub struct TokenBucket {
    burst: u32,
    interval: Duration,
    tokens: u32,
    /// The time up to which intervals are counted.
    since: Instant,
}

impl TokenBucket {
    /// A full bucket: `burst` events are allowed at once, then one for each `interval`.
    pub fn new(burst: u32, interval: Duration) -> Self {
        TokenBucket { burst, interval, tokens: burst, since: Instant::now() }
    }

    /// Whether one more event is allowed now.
    pub fn take(&mut self, now: Instant) -> bool {
        let intervals =
            now.saturating_duration_since(self.since).as_nanos() / self.interval.as_nanos().max(1);
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        if intervals > 0 {
            self.tokens = self.tokens.saturating_add(intervals).min(self.burst);
            self.since = match self.tokens < self.burst {
                true => self.since + self.interval * intervals,
                false => now,
            };
        }
        let allowed = self.tokens > 0;
        self.tokens -= u32::from(allowed);
        allowed
    }

    fn is_empty(&self) -> bool {
        self.tokens == 0
    }
}

/// Limits the log lines that a peer causes.
#[derive(Debug)]
pub struct LogRateLimiter {
    bucket: TokenBucket,
    left_out: u64,
}

impl Default for LogRateLimiter {
    fn default() -> Self {
        Self::new()
    }
}

impl LogRateLimiter {
    /// Allows enough lines for a peer with few mistakes, and two lines a second for a peer that makes mistakes all
    /// the time.
    pub fn new() -> Self {
        LogRateLimiter { bucket: TokenBucket::new(64, Duration::from_millis(500)), left_out: 0 }
    }

    /// Returns the line to log, with the number of lines suppressed before it; `None` if this line is suppressed too.
    pub fn admit(&mut self, now: Instant, what: impl Display) -> Option<String> {
        if !self.bucket.take(now) {
            self.left_out += 1;
            return None;
        }
        let mut line = what.to_string();
        match std::mem::take(&mut self.left_out) {
            0 => {}
            1 => line += " (before it 1 line was left out)",
            count => line += &format!(" (before it {count} lines were left out)"),
        }
        if self.bucket.is_empty() {
            line += " (further lines are left out for a while)";
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let interval = Duration::from_millis(100);
        let mut bucket = TokenBucket::new(10, interval);
        let start = bucket.since;
        let taken =
            |bucket: &mut TokenBucket, at: Duration| (0..100).filter(|_| bucket.take(start + at)).count();
        assert_eq!(taken(&mut bucket, Duration::ZERO), 10);
        assert_eq!(taken(&mut bucket, interval - Duration::from_nanos(1)), 0);
        assert_eq!(taken(&mut bucket, interval * 3), 3);
        // Half an interval is not lost.
        assert_eq!(taken(&mut bucket, interval * 9 / 2), 1);
        assert_eq!(taken(&mut bucket, interval * 5), 1);
        assert_eq!(taken(&mut bucket, Duration::from_secs(1_000_000)), 10);
    }

    #[test]
    fn lines_left_out_are_counted_in_the_next_one() {
        let mut limiter = LogRateLimiter::new();
        let start = limiter.bucket.since;
        let lines: Vec<_> = (0..1000).filter_map(|number| limiter.admit(start, number)).collect();
        assert_eq!(lines.len(), 64);
        assert_eq!((&*lines[0], &*lines[63]), ("0", "63 (further lines are left out for a while)"));
        let next = limiter.admit(start + Duration::from_secs(10), "next").unwrap();
        assert_eq!(next, "next (before it 936 lines were left out)");
        assert_eq!(limiter.admit(start + Duration::from_secs(10), "last").unwrap(), "last");
    }
}
