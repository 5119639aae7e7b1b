//! Rate limits of one port, in packets and in bits a second.
use std::time::Instant;

use frame::{Frame, FrameBatch, LARGEST_FRAME_BYTES};

use crate::RateLimit;

/// The rates at which frames may come from one port. A frame that is still to be segmented counts as its segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policing {
    /// Packets a second; `None` for any number.
    pub packets_per_second: Option<u64>,
    /// The most packets that may come at once, but never fewer than 64; `None` for as many as the rate allows in 50 ms.
    pub packets_burst: Option<u64>,
    /// Bits of frames a second, from destination address to payload's end; `None` for any number.
    pub bits_per_second: Option<u64>,
    /// The most bits that may come at once, but never fewer than two of the largest frames; `None` for as many as the
    /// rate allows in 50 ms.
    pub bits_burst: Option<u64>,
}

impl Policing {
    /// The highest rate. A higher value is taken as this one.
    pub const MOST_PER_SECOND: u64 = RateLimit::MOST_PER_SECOND;
    /// The largest burst, in packets or in bits; more is taken as this.
    pub const MOST_BURST: u64 = RateLimit::MOST_BURST;
}

/// The token buckets of one port, shared by all its queues.
#[derive(Debug)]
pub struct Policer {
    packets: Option<RateLimit>,
    bytes: Option<RateLimit>,
}

impl Policer {
    /// `None` if nothing is limited.
    pub fn new(policing: Policing) -> Option<Self> {
        let Policing { packets_per_second, packets_burst, bits_per_second, bits_burst } = policing;
        let packets = packets_per_second.map(|rate| match packets_burst {
            // Otherwise a frame of many segments would never pass.
            Some(burst) => RateLimit::with_burst(rate, burst.max(RateLimit::LEAST_FRAMES)),
            None => RateLimit::new(rate, RateLimit::LEAST_FRAMES),
        });
        // Otherwise the largest frame would never pass.
        let least = 2 * LARGEST_FRAME_BYTES as u64;
        let bytes = bits_per_second.map(|rate| match bits_burst {
            Some(burst) => RateLimit::with_burst(rate / 8, (burst / 8).max(least)),
            None => RateLimit::new(rate / 8, least),
        });
        (packets.is_some() || bytes.is_some()).then_some(Policer { packets, bytes })
    }

    /// How many frames of a burst pass, counted from its first.
    pub fn admit(&self, batch: &FrameBatch, now: Instant) -> usize {
        let by_packets = prefix(self.packets.as_ref(), batch, batch.len(), packets, now);
        let passed = prefix(self.bytes.as_ref(), batch, by_packets, bytes, now);
        if let Some(limit) = &self.packets
            && passed < by_packets
        {
            limit.give_back((passed..by_packets).map(|at| packets(&batch.frame(at))).sum());
        }
        passed
    }
}

/// How many of the first `count` frames there are tokens for.
fn prefix(
    limit: Option<&RateLimit>,
    batch: &FrameBatch,
    count: usize,
    cost: fn(&Frame<'_>) -> u64,
    now: Instant,
) -> usize {
    let Some(limit) = limit else { return count };
    let fitting = |tokens: u64| {
        let mut sum = 0;
        for at in 0..count {
            let next = sum + cost(&batch.frame(at));
            if next > tokens {
                return (at, sum);
            }
            sum = next;
        }
        (count, sum)
    };
    fitting(limit.take_some(now, |there| fitting(there).1)).0
}

fn bytes(frame: &Frame<'_>) -> u64 {
    frame.len_bytes() as u64
}

/// Headers are found when a frame is segmented, not before: at most one more than there will be.
fn packets(frame: &Frame<'_>) -> u64 {
    let segmentation = frame.offload().segmentation;
    segmentation.map_or(1, |gso| bytes(frame).div_ceil(gso.segment_bytes.get().into()).max(1))
}
