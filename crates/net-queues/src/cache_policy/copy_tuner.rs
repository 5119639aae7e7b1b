//! Which stores suit a receiver, found by measurement like the demotion of lines.
use std::time::Instant;

use frame::SNAPSHOT_BYTES;
use memory::{LINE_BYTES, NonTemporal};

use super::stores::CopyPolicy;
use super::votes::Votes;

/// Bursts from one comparison to the next: while the latest comparisons agree, and while they do not.
const STABLE_INTERVAL: u16 = 1024;
const UNSTABLE_INTERVAL: u16 = 128;
/// Bursts of a sample of each policy.
const SAMPLE_BURSTS: u16 = 16;
/// Bursts at the beginning of a sample that do not count: the store buffer still drains the other policy's stores.
const WARMUP: u16 = 2;
/// The fewest frames of a burst that counts: with fewer frames, the clock and the ring are most of the measured time.
const MIN_FRAMES: u64 = 16;
/// Bursts that count in a sample that says something.
const MIN_BURSTS: u16 = SAMPLE_BURSTS / 2;
/// The least saving for each line: slightly more than the cost for a receiver that shares a cache with this core to
/// fetch the line from memory instead (`docs/experiments/non-temporal-copies.md`).
const MIN_GAIN_NS: u64 = 10;

/// Finds the copy policy for one receiver: at intervals some bursts are copied under each policy.
///
/// A burst is timed as a whole and under load, including the barrier in the check for a waiting driver at its end.
/// Stores have to complete at that barrier, and that is their cost. (A few bursts without load show only half of the
/// cost, if the cores are far from each other.)
#[derive(Debug)]
pub(crate) struct CopyTuner {
    /// The non-temporal stores to compare with temporal ones; `None` if nothing is compared.
    able: Option<NonTemporal>,
    /// The policy for the next burst.
    current: CopyPolicy,
    /// The number of bursts until the end of the next comparison, which takes the last of them.
    bursts: u16,
    temporal: Spent,
    non_temporal: Spent,
    /// The votes for non-temporal stores.
    votes: Votes,
}

/// The time that one policy has taken in a comparison.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    bursts: u16,
    ns: u64,
    frames: u64,
    bytes: u64,
}

impl Spent {
    fn line_ns(self) -> u64 {
        self.ns * LINE_BYTES as u64 / self.bytes.max(1)
    }

    fn frame_bytes(self) -> u64 {
        self.bytes / self.frames.max(1)
    }

    /// Whether both have seen enough frames of about the same size: a line of a small frame takes longer than a line of
    /// a large one.
    fn is_like(self, other: Spent) -> bool {
        let (own, others) = (self.frame_bytes(), other.frame_bytes());
        self.bursts.min(other.bursts) >= MIN_BURSTS && own.abs_diff(others) <= own.min(others) / 4
    }
}

impl CopyTuner {
    /// Begins with temporal stores, until the others are found to be better.
    pub fn new() -> Self {
        CopyTuner { able: NonTemporal::detect(), ..Self::pinned(CopyPolicy::Temporal) }
    }

    /// Uses this policy always.
    pub fn pinned(policy: CopyPolicy) -> Self {
        CopyTuner {
            able: None,
            current: policy,
            bursts: STABLE_INTERVAL,
            temporal: Spent::default(),
            non_temporal: Spent::default(),
            votes: Votes::AGAINST,
        }
    }

    /// Compares soon. Until then its stores are of this kind, if the processor has them.
    #[cfg(test)]
    pub fn for_test(non_temporal: bool) -> Self {
        let current = CopyPolicy::of(NonTemporal::detect().filter(|_| non_temporal));
        let votes = if non_temporal { Votes::FOR } else { Votes::AGAINST };
        CopyTuner { current, bursts: 3 * SAMPLE_BURSTS, votes, ..CopyTuner::new() }
    }

    /// Must be called before each burst. Returns the time if the burst is part of a comparison.
    #[inline(always)]
    pub fn begin(&mut self) -> Option<Instant> {
        self.bursts -= 1;
        if self.bursts >= 2 * SAMPLE_BURSTS { None } else { self.compare() }
    }

    #[cold]
    fn compare(&mut self) -> Option<Instant> {
        let Some(non_temporal) = self.able else {
            self.bursts = STABLE_INTERVAL;
            return None;
        };
        self.current = CopyPolicy::of((self.bursts < SAMPLE_BURSTS).then_some(non_temporal));
        Some(Instant::now())
    }

    /// The policy for this burst.
    #[inline(always)]
    pub fn policy(&self) -> CopyPolicy {
        self.current
    }

    /// Must be called after a burst that is part of a comparison, with the frames and bytes delivered.
    #[cold]
    pub fn end(&mut self, begun: Instant, frames: u64, bytes: u64) {
        let ns = begun.elapsed().as_nanos() as u64;
        let counts = self.bursts % SAMPLE_BURSTS < SAMPLE_BURSTS - WARMUP
            && frames >= MIN_FRAMES
            // Shorter ones fill no line, so they never go past the caches.
            && bytes >= frames * SNAPSHOT_BYTES as u64;
        if counts {
            let spent = if self.bursts < SAMPLE_BURSTS { &mut self.non_temporal } else { &mut self.temporal };
            spent.bursts += 1;
            spent.ns += ns;
            spent.frames += frames;
            spent.bytes += bytes;
        }
        if self.bursts == 0 {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let (temporal, non_temporal) =
            (std::mem::take(&mut self.temporal), std::mem::take(&mut self.non_temporal));
        if temporal.is_like(non_temporal) {
            let better = temporal.line_ns() > non_temporal.line_ns() + MIN_GAIN_NS;
            self.votes.count(better);
        }
        self.bursts = if self.votes.agree() { STABLE_INTERVAL } else { UNSTABLE_INTERVAL };
        self.current = CopyPolicy::of(self.able.filter(|_| self.votes.is_for()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NON_TEMPORAL_NS: u64 = 5;
    const HOUR: Duration = Duration::from_secs(3600);

    fn is_non_temporal(tuner: &CopyTuner) -> bool {
        matches!(tuner.policy(), CopyPolicy::NonTemporal(_))
    }

    /// One comparison in which a line took so long.
    fn found(tuner: &mut CopyTuner, temporal_ns: u64) {
        let spent =
            |ns| Spent { bursts: SAMPLE_BURSTS, ns: ns * 100, frames: 100, bytes: 100 * LINE_BYTES as u64 };
        (tuner.temporal, tuner.non_temporal) = (spent(temporal_ns), spent(NON_TEMPORAL_NS));
        tuner.judge();
    }

    #[test]
    fn the_latest_comparisons_decide() {
        let mut tuner = CopyTuner::new();
        if tuner.able.is_none() {
            println!("this processor has no stores that go past the caches: nothing to choose");
            return;
        }
        let (near, far) = (12, 25);
        assert!(!is_non_temporal(&tuner));
        (0..Votes::LATEST).for_each(|_| found(&mut tuner, far));
        assert!(!is_non_temporal(&tuner), "as many against it as for it");
        found(&mut tuner, far);
        assert!(is_non_temporal(&tuner));
        (0..100).for_each(|_| found(&mut tuner, far));
        (1..Votes::LATEST).for_each(|_| found(&mut tuner, near));
        assert!(is_non_temporal(&tuner), "the receiver was interrupted, not moved");
        found(&mut tuner, near);
        assert!(!is_non_temporal(&tuner));
        // Nothing was seen: nothing changes.
        (0..100).for_each(|_| tuner.judge());
        assert_eq!(tuner.votes, Votes::of(0));
    }

    #[test]
    fn comparisons_are_rare_and_both_policies_have_as_many_bursts() {
        let mut tuner = CopyTuner::new();
        if tuner.able.is_none() {
            println!("this processor has no stores that go past the caches: nothing to compare");
            return;
        }
        let (mut compared, mut counted) = ([0, 0], [0, 0]);
        for _ in 0..10 * u32::from(STABLE_INTERVAL) {
            let Some(begun) = tuner.begin() else { continue };
            compared[usize::from(is_non_temporal(&tuner))] += 1;
            let before = [tuner.temporal.bursts, tuner.non_temporal.bursts];
            // An interrupted measurement counts no time.
            tuner.end(begun + HOUR, 32, 32 * 64);
            let after = [tuner.temporal.bursts, tuner.non_temporal.bursts];
            (0..2).for_each(|i| counted[i] += u32::from(after[i].saturating_sub(before[i])));
        }
        let each = 10 * u32::from(SAMPLE_BURSTS);
        assert_eq!(compared, [each; 2]);
        // The last of each comparison is judged at once.
        let warm_up = 10 * u32::from(WARMUP);
        assert_eq!(counted, [each - warm_up, each - warm_up - 10]);
    }

    #[test]
    fn other_frames_are_not_held_against_each_other() {
        let spent = |frames, bytes| Spent { bursts: SAMPLE_BURSTS, ns: 1, frames, bytes };
        assert!(spent(400, 400 * 64).is_like(spent(450, 450 * 64)));
        assert!(spent(400, 400 * 1518).is_like(spent(400, 400 * 1300)));
        assert!(!spent(400, 400 * 64).is_like(spent(400, 400 * 128)));
        assert!(!spent(400, 400 * 1518).is_like(spent(400, 400 * 64)));
        assert!(!spent(400, 400 * 64).is_like(Spent::default()));
    }

    #[test]
    fn few_frames_and_short_ones_say_nothing() {
        for (frames, bytes) in [(MIN_FRAMES - 1, 1 << 20), (32, 32 * 60)] {
            let mut tuner = CopyTuner { votes: Votes::of(1), ..CopyTuner::new() };
            for _ in 0..STABLE_INTERVAL {
                if let Some(begun) = tuner.begin() {
                    tuner.end(begun, frames, bytes);
                }
            }
            assert_eq!(tuner.votes, Votes::of(1));
        }
    }

    #[test]
    fn what_is_pinned_is_never_compared() {
        for policy in [CopyPolicy::Temporal, CopyPolicy::of(NonTemporal::detect())] {
            let mut tuner = CopyTuner::pinned(policy);
            for _ in 0..10 * u32::from(STABLE_INTERVAL) {
                assert!(tuner.begin().is_none());
                assert_eq!(tuner.policy(), policy);
            }
        }
    }
}
