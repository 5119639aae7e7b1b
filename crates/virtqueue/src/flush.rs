//! What is done with lines that this side has read, and that the driver writes next.
//!
//! A line that was read stays in this core's cache. Before the driver can write it again, that copy must go, and
//! its stores wait for that one after the other. Lines can be given up as soon as they have been read: written back
//! to memory, which lets caches keep them, or sent there altogether. Which of them helps, and whether one
//! does, depends on the processor and on how far the driver's core is (`docs/decisions/given-up-lines.md`), so it is
//! found out by doing: now and then some rounds of the ring are served in each way, and timed.
//!
//! Frames cost this core a line each. They are given up only while the driver is *waited for*: a poll was in vain
//! just before the burst, or a few bursts earlier. A split ring's descriptors are four to a line, and lie in memory
//! of their own that both sides come back to all the time: they may be worth it always.
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Instant;

use memory::Flush;

use crate::QueueSize;

/// Least rounds of the ring from one comparison to the next: behind one that speaks against what is done, and at the
/// most; each that speaks for it doubles them. Up to twice as many: queues of one switch are not to compare at the
/// same time, for then each would time what all of them do.
const UNSETTLED: u32 = 192;
const SETTLED: u32 = 8192;
/// Rounds before one way is timed: lines that were read in the way before have to be written once, and a driver may
/// have more buffers than the ring has slots.
const CHANGING: u32 = 8;
/// Rounds that are timed. A driver may take back what is used once a round.
const TIMED: u32 = 12;
/// The part of its time that a chain must be faster by before lines are demoted: a frame's line costs this core more
/// than a descriptor's. What is demoted already goes on being so while that is no slower: a gain near this limit would
/// otherwise be taken and left in turns, and compared all the time.
const FRAMES_GAIN: u64 = 16;
const DESCRIPTORS_GAIN: u64 = 32;
/// A chain that takes longer than this, in picoseconds, was not waited for because of a line.
const SLOW_PS: u64 = 1_000_000;
/// The majority of so many of the latest comparisons decides.
const VOTES: i8 = 4;

/// Bursts behind a poll in vain that are waited for. A driver publishes more than one at a time.
const BURSTS_PER_WAIT: u8 = 4;

/// What is compared; 0 is to do nothing.
const WAYS: usize = 4;

/// One way of giving up lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Where frames begin, of bursts that were waited for; descriptors as well where lines are evicted.
    Frames(Flush),
    /// Descriptors, of all bursts.
    Descriptors(Flush),
}

/// What is good for the driver of one queue.
pub(crate) struct FlushChoice {
    /// `None`, but for the first: there is nothing to compare.
    ways: [Option<Way>; WAYS],
    /// The one of now.
    current: Option<Way>,
    /// The one between comparisons.
    best: usize,
    /// Least rounds until the next comparison.
    interval: u32,
    phase: Phase,
    /// Chains until the phase ends; less than 0 when its last burst went beyond.
    left: i64,
    size: u32,
    /// Bursts that the last poll in vain still counts for.
    ahead: u8,
    /// The last poll found a burst that was waited for.
    waited: bool,
    /// Bursts of this phase, and those that were waited for.
    bursts: u32,
    waits: u32,
    /// What a chain took in each way of this comparison, ps, or 0 as long as that is not known; `None` where a way is
    /// not tried.
    took: [Option<u64>; WAYS],
    /// The driver was waited for while nothing was done.
    waited_for_nothing: bool,
    /// The way that the next comparison begins with: a rate that rises or falls is not to favour the last.
    first: usize,
    /// For each way and each one before it: comparisons that found it better less those that did not, within limits.
    votes: [[i8; WAYS]; WAYS],
}

#[derive(Clone, Copy)]
enum Phase {
    Using,
    Changing(usize),
    Timing(usize, Instant),
}

impl FlushChoice {
    /// Nothing is done until something is found to be better. `descriptors`: there are lines that hold nothing else,
    /// which this side only reads.
    pub fn new(size: QueueSize, descriptors: bool) -> Self {
        let size = size.get().into();
        let frames = |flush: Option<Flush>| flush.map(Way::Frames);
        let descriptors = Flush::evict().filter(|_| descriptors).map(Way::Descriptors);
        FlushChoice {
            ways: [None, frames(Flush::write_back()), frames(Flush::evict()), descriptors],
            current: None,
            best: 0,
            interval: UNSETTLED,
            phase: Phase::Using,
            left: until_next(UNSETTLED, size),
            size,
            ahead: 0,
            waited: false,
            bursts: 0,
            waits: 0,
            took: [None; WAYS],
            waited_for_nothing: false,
            first: 0,
            votes: [[-VOTES; WAYS]; WAYS],
        }
    }

    /// To be told of each poll how many chains it found.
    #[inline(always)]
    pub fn polled(&mut self, chains: usize) {
        let found = chains > 0;
        self.waited = found && self.ahead > 0;
        self.ahead = if found { self.ahead.saturating_sub(1) } else { BURSTS_PER_WAIT };
        self.bursts += u32::from(found);
        self.waits += u32::from(self.waited);
        self.left -= chains as i64;
        if self.left <= 0 {
            self.go_on();
        }
    }

    /// How to give up the lines where the last burst's frames begin, if that is a good idea.
    #[inline(always)]
    pub fn frames(&self) -> Option<Flush> {
        match self.current {
            Some(Way::Frames(flush)) if self.waited => Some(flush),
            _ => None,
        }
    }

    /// How to give up the lines of its descriptors, if that is a good idea.
    #[inline(always)]
    pub fn descriptors(&self) -> Option<Flush> {
        match self.current {
            Some(Way::Descriptors(flush)) => Some(flush),
            Some(Way::Frames(flush)) if self.waited && flush.evicts() => Some(flush),
            _ => None,
        }
    }

    /// Whether a comparison is to try this way. Where this core is the one that is waited for, frames are not to be
    /// given up; unless it is that by doing it.
    fn is_tried(&self, way: usize, mostly_waited: bool) -> bool {
        let frames_now = matches!(self.current, Some(Way::Frames(_)));
        match self.ways[way] {
            None => way == 0,
            Some(Way::Frames(_)) => mostly_waited || frames_now,
            Some(Way::Descriptors(_)) => true,
        }
    }

    /// The phase is over.
    #[cold]
    fn go_on(&mut self) {
        let mostly_waited = self.waits * 2 > self.bursts;
        (self.bursts, self.waits) = (0, 0);
        self.phase = match self.phase {
            Phase::Using => {
                let tried: [bool; WAYS] = std::array::from_fn(|way| self.is_tried(way, mostly_waited));
                self.took = tried.map(|tried| tried.then_some(0));
                self.first = self.next_from(self.first + 1);
                match tried[1..].contains(&true) {
                    true => self.change_to(self.first),
                    false => self.use_best(),
                }
            }
            Phase::Changing(way) => {
                self.left = i64::from(TIMED * self.size);
                Phase::Timing(way, Instant::now())
            }
            Phase::Timing(way, begun) => {
                let chains = (i64::from(TIMED * self.size) - self.left) as u64;
                self.took[way] = Some(begun.elapsed().as_nanos() as u64 * 1000 / chains.max(1));
                if way == 0 {
                    self.waited_for_nothing = mostly_waited;
                }
                let next = self.next_from(way + 1);
                if next == self.first {
                    self.judge();
                    self.use_best()
                } else {
                    self.change_to(next)
                }
            }
        };
    }

    /// The first way from this one on that is tried.
    fn next_from(&self, way: usize) -> usize {
        (way..way + WAYS).map(|way| way % WAYS).find(|way| self.took[*way].is_some()).unwrap_or(0)
    }

    fn change_to(&mut self, way: usize) -> Phase {
        self.current = self.ways[way];
        self.left = i64::from(CHANGING * self.size);
        Phase::Changing(way)
    }

    /// Votes by what was timed.
    fn judge(&mut self) {
        if self.took.iter().flatten().any(|took| *took > SLOW_PS) {
            return;
        }
        for way in 1..WAYS {
            let Some(took) = self.took[way] else {
                // What is not of use now need not have been of use before.
                self.votes[way][0] = (self.votes[way][0] - 1).max(-VOTES);
                continue;
            };
            let is_frames = matches!(self.ways[way], Some(Way::Frames(_)));
            for other in 0..way {
                let Some(others) = self.took[other] else { continue };
                let of_use = other > 0 || self.waited_for_nothing || !is_frames;
                let least = took / if is_frames { FRAMES_GAIN } else { DESCRIPTORS_GAIN };
                let gain = if other == 0 && way != self.best { least } else { 0 };
                let better = of_use && took + gain < others;
                let votes = &mut self.votes[way][other];
                *votes = (*votes + if better { 1 } else { -1 }).clamp(-VOTES, VOTES);
            }
        }
    }

    fn use_best(&mut self) -> Phase {
        let mut best = 0;
        for way in 1..WAYS {
            if self.votes[way][0] > 0 && (best == 0 || self.votes[way][best] > 0) {
                best = way;
            }
        }
        let agree = best == self.best && self.votes_agree();
        (self.best, self.current) = (best, self.ways[best]);
        self.interval = if agree { (2 * self.interval).min(SETTLED) } else { UNSETTLED };
        self.left = until_next(self.interval, self.size);
        Phase::Using
    }

    /// Whether the latest comparisons all found that what is used is better than nothing, or that nothing is better
    /// than all that was tried.
    fn votes_agree(&self) -> bool {
        match self.best {
            0 => self.votes[1..].iter().all(|votes| votes[0] == -VOTES),
            best => self.votes[best][0] == VOTES,
        }
    }
}

/// Chains from `least` rounds of the ring to twice as many, at random: the standard library's hash maps have the
/// randomness.
#[cold]
fn until_next(least: u32, size: u32) -> i64 {
    let random = RandomState::new().hash_one(least) as u32;
    let more = (u64::from(least) * u64::from(random)) >> 32;
    (u64::from(least) + more) as i64 * i64::from(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    fn choice(layout: Layout) -> FlushChoice {
        FlushChoice::new(QueueSize::new(layout, 256).unwrap(), layout == Layout::Split)
    }

    /// As on a processor that knows both ways; `None` where it does not, and says so.
    fn able(layout: Layout) -> Option<FlushChoice> {
        let choice = choice(layout);
        let able = choice.ways[1..3].iter().all(Option::is_some);
        if !able {
            println!("this processor cannot give up single lines: nothing to choose");
        }
        able.then_some(choice)
    }

    fn written_back() -> Option<Way> {
        Flush::write_back().map(Way::Frames)
    }

    fn evicted() -> Option<Way> {
        Flush::evict().map(Way::Frames)
    }

    fn burst(choice: &mut FlushChoice, waited: bool) {
        if waited {
            choice.polled(0);
        }
        choice.polled(32);
    }

    /// One comparison in which chains took so many nanoseconds, by way, and the driver was waited for.
    fn found<const N: usize>(choice: &mut FlushChoice, took: [u64; N]) {
        choice.took = std::array::from_fn(|way| took.get(way).map(|ns| ns * 1000));
        choice.waited_for_nothing = true;
        choice.judge();
        choice.phase = choice.use_best();
    }

    #[test]
    fn most_of_the_latest_comparisons_decide() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        let (near, far) = ([70, 50, 80], [140, 140, 110]);
        (0..VOTES).for_each(|_| found(&mut choice, near));
        assert_eq!(choice.current, None, "as many against it as for it");
        found(&mut choice, near);
        assert_eq!(choice.current, written_back());
        (0..100).for_each(|_| found(&mut choice, near));
        // An interrupt in one of them is no move.
        found(&mut choice, [70, 500, 80]);
        assert_eq!(choice.current, written_back());
        (0..=VOTES).for_each(|_| found(&mut choice, far));
        assert_eq!(choice.current, evicted());
        // What is as good as nothing is not done.
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [96, 97, 96]));
        assert_eq!(choice.current, None);
    }

    /// DPDK 26.07's driver on a packed ring gains a fifteenth: half of the comparisons find more, half of them less.
    #[test]
    fn a_gain_near_the_limit_is_kept_once_it_is_taken() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        (0..=VOTES).for_each(|_| found(&mut choice, [300, 270, 550]));
        for i in 0..100 {
            found(&mut choice, [300, if i % 2 == 0 { 280 } else { 284 }, 550]);
            assert_eq!(choice.current, written_back());
        }
        assert_eq!(choice.interval, SETTLED, "nothing speaks against it");
        (0..=VOTES).for_each(|_| found(&mut choice, [300, 301, 550]));
        assert_eq!(choice.current, None, "it helps no more");
        (0..100).for_each(|_| found(&mut choice, [300, 290, 550]));
        assert_eq!(choice.current, None, "too little to begin with");
    }

    #[test]
    fn comparisons_become_rare_where_they_agree_and_frequent_where_they_do_not() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        (0..5 * VOTES).for_each(|_| found(&mut choice, [100, 70, 90]));
        assert_eq!(choice.interval, SETTLED);
        // The cores have moved apart.
        found(&mut choice, [140, 140, 110]);
        assert_eq!(choice.interval, UNSETTLED);
        (0..5 * VOTES).for_each(|_| found(&mut choice, [140, 140, 110]));
        assert_eq!((choice.current, choice.interval), (evicted(), SETTLED));
    }

    #[test]
    fn of_two_that_help_the_better_one_is_taken() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [100, 70, 90]));
        assert_eq!(choice.current, written_back());
        (0..=VOTES).for_each(|_| found(&mut choice, [100, 90, 70]));
        assert_eq!(choice.current, evicted());
        (0..=VOTES).for_each(|_| found(&mut choice, [100, 70, 90]));
        assert_eq!(choice.current, written_back());
    }

    #[test]
    fn a_driver_that_has_nothing_to_send_says_nothing() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        let votes = choice.votes;
        (0..100).for_each(|_| found(&mut choice, [5000, 50, 50]));
        (0..100).for_each(|_| found(&mut choice, [70, 70, 5000]));
        assert_eq!(choice.votes, votes);
    }

    #[test]
    fn each_way_has_as_many_rounds() {
        // Of what is tried, that is: packed rings have no lines of descriptors alone, and frames are left alone
        // where the driver is ahead.
        let cases = [
            (Layout::Packed, true, [1, 1, 1, 0]),
            (Layout::Split, true, [1; WAYS]),
            (Layout::Split, false, [1, 0, 0, 1]),
        ];
        for (layout, waited, tried) in cases {
            let Some(mut choice) = able(layout) else { return };
            let (mut changing, mut timed, mut began) = ([0; WAYS], [0; WAYS], [0; WAYS]);
            let ways: u32 = tried.iter().sum();
            // Beginning twice with each.
            let mut left = 2 * ways;
            let mut using = true;
            while left > 0 {
                match choice.phase {
                    Phase::Using => left -= u32::from(!using),
                    Phase::Changing(way) => {
                        began[way] += u32::from(using);
                        changing[way] += 1;
                    }
                    Phase::Timing(way, _) => timed[way] += 1,
                }
                using = matches!(choice.phase, Phase::Using);
                if let Phase::Changing(way) | Phase::Timing(way, _) = choice.phase {
                    assert_eq!(choice.current, choice.ways[way]);
                }
                // No comparison of these is to count: as long as it lasts, all disagree.
                choice.votes[1][0] = -1;
                burst(&mut choice, waited);
            }
            let rounds = |each: u32| tried.map(|tried| 2 * ways * 8 * tried * each);
            assert_eq!((changing, timed), (rounds(CHANGING), rounds(TIMED)), "{layout:?}");
            assert_eq!(began, tried.map(|tried| 2 * tried), "{layout:?}");
        }
    }

    /// They are worth it where they are, waited for or not; and no more than one thing at a time is done.
    #[test]
    fn descriptors_are_given_up_where_that_is_better() {
        let Some(mut choice) = able(Layout::Split) else { return };
        let evict = Flush::evict();
        let ahead = |choice: &mut FlushChoice, took: [Option<u64>; WAYS]| {
            choice.took = took.map(|took| took.map(|ns| ns * 1000));
            choice.waited_for_nothing = false;
            choice.judge();
            choice.phase = choice.use_best();
            burst(choice, false);
        };
        (0..=VOTES).for_each(|_| ahead(&mut choice, [Some(140), None, None, Some(110)]));
        assert_eq!((choice.descriptors(), choice.frames()), (evict, None));
        // Frames too, where the driver is waited for and that is better still.
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [140, 140, 90, 110]));
        burst(&mut choice, true);
        assert_eq!((choice.descriptors(), choice.frames()), (evict, evict));
        burst(&mut choice, false);
        (0..BURSTS_PER_WAIT).for_each(|_| burst(&mut choice, false));
        assert_eq!((choice.descriptors(), choice.frames()), (None, None));
        // A driver that is not waited for says nothing for frames.
        (0..=2 * VOTES).for_each(|_| ahead(&mut choice, [Some(140), Some(140), Some(90), Some(138)]));
        assert_eq!((choice.current, choice.descriptors()), (None, None));
    }

    #[test]
    fn nothing_is_compared_where_the_driver_is_ahead() {
        let mut choice = choice(Layout::Packed);
        for i in 0..8 * 10 * SETTLED {
            burst(&mut choice, i % (2 * u32::from(BURSTS_PER_WAIT)) == 0);
            assert!(matches!(choice.phase, Phase::Using));
        }
    }

    /// A driver that was waited for goes on to one that is not: what was found for it ends.
    #[test]
    fn nothing_is_given_up_for_long_where_the_driver_is_ahead() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        // Some comparisons more than it takes: one in which this thread was interrupted says nothing.
        let comparison = WAYS as u32 * (CHANGING + TIMED);
        let bursts = 8 * (2 * SETTLED + 20 * (2 * UNSETTLED + comparison));
        for _ in 0..bursts {
            burst(&mut choice, false);
        }
        assert!(choice.votes[1][0] <= 0);
    }

    #[test]
    fn lines_are_given_up_only_when_there_is_time_to_spare() {
        let Some(mut choice) = able(Layout::Packed) else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        choice.polled(1);
        assert_eq!(choice.frames(), None, "the driver was ahead");
        choice.polled(0);
        for _ in 0..BURSTS_PER_WAIT {
            choice.polled(1);
            assert_eq!(choice.frames(), Flush::write_back());
        }
        choice.polled(1);
        assert_eq!(choice.frames(), None);
    }
}
