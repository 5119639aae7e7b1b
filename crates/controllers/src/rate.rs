//! The limit on the rate of packets for a controller: a token bucket.

use std::time::Duration;

/// A rate, and the tokens that are left: thousandths of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_second: u32,
    burst: u32,
    tokens: u64,
    last: Duration,
}

const TOKENS_OF_A_PACKET: u64 = 1000;

impl Rate {
    pub fn new((per_second, burst): (u32, u32), now: Duration) -> Self {
        let burst = burst.max(1);
        Self { per_second, burst, tokens: u64::from(burst) * TOKENS_OF_A_PACKET, last: now }
    }

    /// Whether one more packet passes at `now`.
    pub fn passes(&mut self, now: Duration) -> bool {
        let elapsed_ms = now.saturating_sub(self.last).as_millis();
        if elapsed_ms > 0 {
            self.last = now;
            let new = u64::try_from(elapsed_ms).unwrap_or(u64::MAX).saturating_mul(self.per_second.into());
            let full = u64::from(self.burst) * TOKENS_OF_A_PACKET;
            self.tokens = self.tokens.saturating_add(new).min(full);
        }
        match self.tokens.checked_sub(TOKENS_OF_A_PACKET) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lets_its_packets_pass_and_a_pause_at_most_the_burst() {
        let mut rate = Rate::new((100, 25), Duration::ZERO);
        let mut passed = |from_ms: u64, to_ms: u64| {
            (from_ms..to_ms).filter(|ms| rate.passes(Duration::from_millis(*ms))).count()
        };
        assert_eq!(passed(0, 1000), 25 + 99);
        assert_eq!(passed(60_000, 60_020), 20);
        assert_eq!(passed(60_020, 60_100), 5 + 9);
    }
}
