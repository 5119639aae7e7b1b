//! Demotes the cache lines that this side has read and that the driver writes next, if measurement shows that it
//! helps.
//!
//! A line that was read stays in this core's cache. Before the driver can write the line again, that copy must be
//! invalidated, and the driver's stores wait for it. Lines can be demoted as soon as they have been read: written
//! back to memory, which lets caches keep them, or evicted. Whether either helps depends on the processor and on the
//! distance of the driver's core (`docs/experiments/cache-line-demotion.md`). It is therefore measured: at intervals
//! some laps of the ring are served under each policy and timed.
//!
//! Demoting a frame costs this core the work on one line. Frames are demoted only while the *device is idle* (the
//! driver is the limit): an empty poll came just before the burst, or a few bursts earlier. Descriptors of a split
//! ring are four to a line, in memory that both sides use repeatedly. Demoting them may help always.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use memory::Demotion;
use virtqueue::QueueSize;

use super::votes::Votes;

/// The fewest laps of the ring between two comparisons: after a comparison against the present policy, and at most.
/// Each comparison for it doubles the laps. The real number is up to twice as large, because queues that compare at the
/// same time would each measure the effect of all of them.
const UNSTABLE_INTERVAL: u32 = 192;
const STABLE_INTERVAL: u32 = 8192;
/// Laps before a policy is timed: lines that were read under the policy before have to be written once, and a driver
/// may have more buffers than the ring has slots.
const SETTLE_LAPS: u32 = 8;
/// Laps that are timed. A driver may take used buffers back only once a lap.
const SAMPLE_LAPS: u32 = 12;
/// The part of its time that a chain must be faster by before lines are demoted: a frame's line costs this core more
/// than a descriptor's. Lines that are demoted already stay so while that is no slower: otherwise a gain near this
/// limit would make the policy change, and the comparisons frequent, all the time.
const FRAMES_GAIN: u64 = 16;
const DESCRIPTORS_GAIN: u64 = 32;
/// A chain that takes longer than this, in picoseconds, was not held up by a line.
const SLOW_PS: u64 = 1_000_000;
/// Bursts after an empty poll that still count as device idle. A driver publishes more than one at a time.
const IDLE_BURSTS: u8 = 4;

/// The number of policies that are compared; policy 0 is used unless another is found to be better.
const POLICIES: usize = 4;

/// Which lines to demote, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemotionPolicy {
    /// Lines where frames begin, in bursts that found the device idle. With eviction also descriptors.
    Frames(Demotion),
    /// Lines of descriptors, in all bursts.
    Descriptors(Demotion),
}

/// Finds the policy that suits the driver of one queue.
pub(crate) struct DemotionTuner {
    /// The policies to compare. If all but the first are `None`, there is nothing to compare.
    policies: [Option<DemotionPolicy>; POLICIES],
    /// The policy now in use.
    current: Option<DemotionPolicy>,
    /// The policy in use between comparisons.
    best: usize,
    /// The least number of laps until the next comparison.
    interval: u32,
    phase: Phase,
    /// Chains until the phase ends. Below 0 if its last burst went beyond.
    left: i64,
    size: u32,
    /// The number of bursts for which the last empty poll still counts.
    idle_left: u8,
    /// Whether the last poll found a burst while the device was idle.
    device_idle: bool,
    /// The number of bursts of this phase, and of those that found the device idle.
    bursts: u32,
    idle_bursts: u32,
    /// The time for a chain under each policy of this comparison, ps; 0 while it is unknown. `None` if a policy is
    /// not tried.
    took: [Option<u64>; POLICIES],
    /// Whether the device was idle while nothing was demoted.
    idle_without: bool,
    /// The policy with which the next comparison begins. It changes, so that a rising or falling rate does not favour
    /// the last policy.
    first: usize,
    /// For each policy and each one before it, the comparisons in which it was better.
    votes: [[Votes; POLICIES]; POLICIES],
}

#[derive(Clone, Copy)]
enum Phase {
    Using,
    Settling(usize),
    Sampling(usize, Instant),
}

impl DemotionTuner {
    /// Begins without demotion, until measurement shows that it helps. `descriptors` says whether the queue can
    /// demote those lines.
    pub fn new(size: QueueSize, descriptors: bool) -> Self {
        let frames = |demotion: Option<Demotion>| demotion.map(DemotionPolicy::Frames);
        let descriptors = Demotion::evict().filter(|_| descriptors).map(DemotionPolicy::Descriptors);
        let compared = [frames(Demotion::write_back()), frames(Demotion::evict()), descriptors];
        Self::of(size, [None, compared[0], compared[1], compared[2]])
    }

    /// Uses this policy always; nothing is compared.
    pub fn pinned(size: QueueSize, policy: Option<DemotionPolicy>) -> Self {
        Self::of(size, [policy, None, None, None])
    }

    fn of(size: QueueSize, policies: [Option<DemotionPolicy>; POLICIES]) -> Self {
        let size = size.get().into();
        DemotionTuner {
            policies,
            current: policies[0],
            best: 0,
            interval: UNSTABLE_INTERVAL,
            phase: Phase::Using,
            left: until_next(UNSTABLE_INTERVAL, size),
            size,
            idle_left: 0,
            device_idle: false,
            bursts: 0,
            idle_bursts: 0,
            took: [None; POLICIES],
            idle_without: false,
            first: 0,
            votes: [[Votes::AGAINST; POLICIES]; POLICIES],
        }
    }

    /// Must be called after each poll with the number of chains that it found.
    #[inline(always)]
    pub fn polled(&mut self, chains: usize) {
        let found = chains > 0;
        self.device_idle = found && self.idle_left > 0;
        self.idle_left = if found { self.idle_left.saturating_sub(1) } else { IDLE_BURSTS };
        self.bursts += u32::from(found);
        self.idle_bursts += u32::from(self.device_idle);
        self.left -= chains as i64;
        if self.left <= 0 {
            self.go_on();
        }
    }

    /// How to demote the lines where the last burst's frames begin, if they are to be demoted.
    #[inline(always)]
    pub fn frames(&self) -> Option<Demotion> {
        match self.current {
            Some(DemotionPolicy::Frames(demotion)) if self.device_idle => Some(demotion),
            _ => None,
        }
    }

    /// How to demote the lines of the last burst's descriptors, if they are to be demoted.
    #[inline(always)]
    pub fn descriptors(&self) -> Option<Demotion> {
        match self.current {
            Some(DemotionPolicy::Descriptors(demotion)) => Some(demotion),
            Some(DemotionPolicy::Frames(demotion)) if self.device_idle && demotion.evicts() => Some(demotion),
            _ => None,
        }
    }

    /// Whether a comparison is to try this policy. If the device is busy, frames are not demoted, unless demotion
    /// itself makes it busy.
    fn is_tried(&self, policy: usize, mostly_idle: bool) -> bool {
        let frames_now = matches!(self.current, Some(DemotionPolicy::Frames(_)));
        match self.policies[policy] {
            None => policy == 0,
            Some(DemotionPolicy::Frames(_)) => mostly_idle || frames_now,
            Some(DemotionPolicy::Descriptors(_)) => true,
        }
    }

    /// The phase is over.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self) {
        let mostly_idle = self.idle_bursts * 2 > self.bursts;
        (self.bursts, self.idle_bursts) = (0, 0);
        self.phase = match self.phase {
            Phase::Using => {
                let tried: [bool; POLICIES] =
                    std::array::from_fn(|policy| self.is_tried(policy, mostly_idle));
                self.took = tried.map(|tried| tried.then_some(0));
                self.first = self.next_from(self.first + 1);
                match tried[1..].contains(&true) {
                    true => self.settle(self.first),
                    false => self.use_best(),
                }
            }
            Phase::Settling(policy) => {
                self.left = i64::from(SAMPLE_LAPS * self.size);
                Phase::Sampling(policy, Instant::now())
            }
            Phase::Sampling(policy, begun) => {
                let chains = (i64::from(SAMPLE_LAPS * self.size) - self.left) as u64;
                self.took[policy] = Some(begun.elapsed().as_nanos() as u64 * 1000 / chains.max(1));
                if policy == 0 {
                    self.idle_without = mostly_idle;
                }
                let next = self.next_from(policy + 1);
                if next == self.first {
                    self.judge();
                    self.use_best()
                } else {
                    self.settle(next)
                }
            }
        };
    }

    /// The first policy from this one on that is tried.
    fn next_from(&self, policy: usize) -> usize {
        (policy..policy + POLICIES)
            .map(|policy| policy % POLICIES)
            .find(|policy| self.took[*policy].is_some())
            .unwrap_or(0)
    }

    fn settle(&mut self, policy: usize) -> Phase {
        self.current = self.policies[policy];
        self.left = i64::from(SETTLE_LAPS * self.size);
        Phase::Settling(policy)
    }

    /// Votes by the measured times.
    fn judge(&mut self) {
        if self.took.iter().flatten().any(|took| *took > SLOW_PS) {
            return;
        }
        for policy in 1..POLICIES {
            let Some(took) = self.took[policy] else {
                // A policy that is not better now counts as not better before.
                self.votes[policy][0].count(false);
                continue;
            };
            let is_frames = matches!(self.policies[policy], Some(DemotionPolicy::Frames(_)));
            for other in 0..policy {
                let Some(others) = self.took[other] else { continue };
                let of_use = other > 0 || self.idle_without || !is_frames;
                let least = took / if is_frames { FRAMES_GAIN } else { DESCRIPTORS_GAIN };
                let gain = if other == 0 && policy != self.best { least } else { 0 };
                let better = of_use && took + gain < others;
                self.votes[policy][other].count(better);
            }
        }
    }

    fn use_best(&mut self) -> Phase {
        let mut best = 0;
        for policy in 1..POLICIES {
            if self.votes[policy][0].is_for() && (best == 0 || self.votes[policy][best].is_for()) {
                best = policy;
            }
        }
        let agree = best == self.best && self.votes_agree();
        (self.best, self.current) = (best, self.policies[best]);
        self.interval = if agree { (2 * self.interval).min(STABLE_INTERVAL) } else { UNSTABLE_INTERVAL };
        self.left = until_next(self.interval, self.size);
        Phase::Using
    }

    /// Whether the latest comparisons all found the present policy better than no demotion, or no demotion better than
    /// all policies.
    fn votes_agree(&self) -> bool {
        match self.best {
            0 => self.votes[1..].iter().all(|votes| votes[0] == Votes::AGAINST),
            best => self.votes[best][0] == Votes::FOR,
        }
    }
}

/// Chains from `least` laps of the ring to twice as many, at random: the standard library's hash maps have the
/// randomness.
#[cold]
fn until_next(least: u32, size: u32) -> i64 {
    let random = RandomState::new().hash_one(least) as u32;
    let more = (u64::from(least) * u64::from(random)) >> 32;
    (u64::from(least) + more) as i64 * i64::from(size)
}

#[cfg(test)]
mod tests;
