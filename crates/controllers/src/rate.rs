//! The limit on the rate of packets for a controller: a token bucket, which input ports share.

use std::time::Duration;

/// Tokens are thousandths of a packet.
const TOKENS_OF_A_PACKET: u64 = 1000;
/// A port has a share for this time after its last packet.
const ACTIVE: Duration = Duration::from_secs(1);
/// The most ports with a share. Packets of further ports pass only while tokens are left over.
const MOST_SHARES: usize = 64;

/// The tokens of one input port.
#[derive(Clone, Copy, Debug)]
struct PortTokens {
    port: u16,
    tokens: u64,
    last: Duration,
}

/// A rate and the tokens that are left. While several ports have packets, each has a share of the rate. A port takes more
/// than its share as long as more than half of all tokens are left, so that a port with many packets leaves tokens for
/// the others.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    per_second: u32,
    /// The most tokens.
    full: u64,
    tokens: u64,
    last: Duration,
    shares: Vec<PortTokens>,
}

/// The tokens that a time brings.
fn new_tokens(elapsed: Duration, per_second: u32) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).saturating_mul(per_second.into())
}

impl Rate {
    pub fn new((per_second, burst): (u32, u32), now: Duration) -> Self {
        let full = u64::from(burst.max(1)) * TOKENS_OF_A_PACKET;
        Self { per_second, full, tokens: full, last: now, shares: Vec::new() }
    }

    /// Whether one more packet of this input port passes at `now`.
    pub fn passes(&mut self, port: u16, now: Duration) -> bool {
        let new = new_tokens(now.saturating_sub(self.last), self.per_second);
        (self.tokens, self.last) = (self.tokens.saturating_add(new).min(self.full), now.max(self.last));
        let is_spare = self.tokens > self.full / 2;
        let own = self.own(port, now);
        if self.tokens < TOKENS_OF_A_PACKET || !(own || is_spare) {
            return false;
        }
        self.tokens -= TOKENS_OF_A_PACKET;
        if let Some(share) = self.shares.iter_mut().find(|share| own && share.port == port) {
            share.tokens -= TOKENS_OF_A_PACKET;
        }
        true
    }

    /// Whether a port has tokens for a packet.
    fn own(&mut self, port: u16, now: Duration) -> bool {
        self.shares.retain(|share| share.port == port || now.saturating_sub(share.last) < ACTIVE);
        let is_known = self.shares.iter().any(|share| share.port == port);
        if !is_known && self.shares.len() < MOST_SHARES {
            self.shares.push(PortTokens { port, tokens: u64::MAX, last: now });
        }
        let ports = self.shares.len() as u64; // MOST_SHARES at most
        let full = (self.full / ports.max(1)).max(TOKENS_OF_A_PACKET);
        let Some(share) = self.shares.iter_mut().find(|share| share.port == port) else { return false };
        let new = new_tokens(now.saturating_sub(share.last), self.per_second) / ports;
        (share.tokens, share.last) = (share.tokens.saturating_add(new).min(full), now.max(share.last));
        share.tokens >= TOKENS_OF_A_PACKET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lets_its_packets_pass_and_a_pause_at_most_the_burst() {
        let mut rate = Rate::new((100, 25), Duration::ZERO);
        let mut passed = |from_ms: u64, to_ms: u64| {
            (from_ms..to_ms).filter(|ms| rate.passes(1, Duration::from_millis(*ms))).count()
        };
        assert_eq!(passed(0, 1000), 25 + 99);
        assert_eq!(passed(60_000, 60_020), 20);
        assert_eq!(passed(60_020, 60_100), 5 + 9);
    }

    /// A port sends a packet each 10 ms, and others send without end: it loses none, and all packets of the rate pass.
    #[test]
    fn a_port_with_many_packets_leaves_tokens_for_the_others() {
        for others in [1, 3, 100] {
            let mut rate = Rate::new((1000, 250), Duration::ZERO);
            let (mut lost, mut passed) = (0, 0);
            for ms in 0..2000 {
                let now = Duration::from_millis(ms);
                passed += (0..400).filter(|at| rate.passes(2 + at % others, now)).count();
                if ms % 20 == 19 {
                    let passes = rate.passes(1, now);
                    lost += u32::from(!passes && ms > 100);
                    passed += usize::from(passes);
                }
            }
            // Half of the burst at least, and all of the rate.
            assert!((2100..=2250).contains(&passed), "{others}: {passed}");
            assert!(lost == 0 || others > 64, "{others}: {lost}");
        }
    }
}
