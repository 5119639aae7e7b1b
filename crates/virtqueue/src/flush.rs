//! What is done with lines that this side has read, and that the driver writes next.
//!
//! A line that was read stays in this core's cache. Before the driver can write it again, that copy must go, and
//! its stores wait for that one after the other. Lines can be given up as soon as they have been read: written back
//! to memory, which lets caches keep them, or sent there altogether. Which of them helps, and whether one
//! does, depends on the processor and on how far the driver's core is (`docs/decisions/given-up-lines.md`), so it is
//! found out by doing: now and then some rounds of the ring are served in each way, and timed.
//!
//! It costs this core time, so it is done only while the driver is *waited for*: a poll was in vain just before the
//! burst, or a few bursts earlier.
use std::time::Instant;

use memory::Flush;

use crate::QueueSize;

/// Rounds of the ring from one comparison to the next, where the latest all said the same, and where they did not.
const SETTLED: u32 = 2048;
const UNSETTLED: u32 = 128;
/// Rounds before one way is timed: lines that were read in the way before have to be written once, and a driver may
/// have more buffers than the ring has slots.
const CHANGING: u32 = 8;
/// Rounds that are timed. A driver may take back what is used once a round.
const TIMED: u32 = 4;
/// The part of its time that a chain must be faster by.
const GAIN: u64 = 16;
/// A chain that takes longer than this, in picoseconds, was not waited for because of a line.
const SLOW_PS: u64 = 1_000_000;
/// The majority of so many of the latest comparisons decides.
const VOTES: i8 = 4;

/// Bursts behind a poll in vain that are waited for. A driver publishes more than one at a time.
const BURSTS_PER_WAIT: u8 = 4;

/// What is compared: nothing is done, and the two ways of giving up.
const WAYS: usize = 3;

/// What is good for the driver of one queue.
pub(crate) struct FlushChoice {
    ways: [Option<Flush>; WAYS],
    /// The one of now.
    current: Option<Flush>,
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
    /// What a chain took in each way, ps. While nothing was done: 0 if the driver was not waited for, which no way
    /// is better than.
    took: [u64; WAYS],
    /// The way that the next comparison begins with: a rate that rises or falls is not to favour the last.
    first: usize,
    /// For each way: comparisons that found it better than doing nothing less those that did not, within limits.
    votes: [i8; WAYS],
    /// The same for the last way against the one before it.
    last_is_best: i8,
}

#[derive(Clone, Copy)]
enum Phase {
    Using,
    Changing(usize),
    Timing(usize, Instant),
}

impl FlushChoice {
    /// Nothing is done until something is found to be better.
    pub fn new(size: QueueSize) -> Self {
        let size = size.get().into();
        FlushChoice {
            ways: [None, Flush::write_back(), Flush::evict()],
            current: None,
            phase: Phase::Using,
            left: i64::from(UNSETTLED * size),
            size,
            ahead: 0,
            waited: false,
            bursts: 0,
            waits: 0,
            took: [0; WAYS],
            first: 0,
            votes: [-VOTES; WAYS],
            last_is_best: 0,
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

    /// How to give up the lines of the last burst, if that is a good idea.
    #[inline(always)]
    pub fn now(&self) -> Option<Flush> {
        if self.waited { self.current } else { None }
    }

    /// The phase is over.
    #[cold]
    fn go_on(&mut self) {
        let mostly_waited = self.waits * 2 > self.bursts;
        (self.bursts, self.waits) = (0, 0);
        self.phase = match self.phase {
            // Where this core is the one that is waited for, nothing is to be done; unless it is that by doing it.
            Phase::Using if mostly_waited || self.current.is_some() => {
                self.first = (self.first + 1) % WAYS;
                self.change_to(self.first)
            }
            Phase::Using => self.use_best(),
            Phase::Changing(way) => {
                self.left = i64::from(TIMED * self.size);
                Phase::Timing(way, Instant::now())
            }
            Phase::Timing(way, begun) => {
                let chains = (i64::from(TIMED * self.size) - self.left) as u64;
                let took = begun.elapsed().as_nanos() as u64 * 1000 / chains.max(1);
                self.took[way] = if way == 0 && !mostly_waited { 0 } else { took };
                let next = (way + 1) % WAYS;
                if next == self.first {
                    self.judge();
                    self.use_best()
                } else {
                    self.change_to(next)
                }
            }
        };
    }

    fn change_to(&mut self, way: usize) -> Phase {
        self.current = self.ways[way];
        self.left = i64::from(CHANGING * self.size);
        Phase::Changing(way)
    }

    /// Votes by what was timed.
    fn judge(&mut self) {
        let [nothing, before, last] = self.took;
        if self.took.iter().any(|took| *took > SLOW_PS) {
            return;
        }
        let vote = |votes: &mut i8, better: bool| {
            *votes = (*votes + if better { 1 } else { -1 }).clamp(-VOTES, VOTES);
        };
        for way in 1..WAYS {
            let took = self.took[way];
            let better = self.ways[way].is_some() && took + took / GAIN < nothing;
            vote(&mut self.votes[way], better);
        }
        vote(&mut self.last_is_best, last < before);
    }

    fn use_best(&mut self) -> Phase {
        let is_good = |way: &usize| self.votes[*way] > 0;
        let last_first = self.last_is_best > 0;
        let best = if last_first { [2, 1] } else { [1, 2] }.into_iter().find(is_good);
        self.current = best.and_then(|way| self.ways[way]);
        let settled = self.votes.iter().all(|votes| votes.abs() == VOTES);
        self.left = i64::from(self.size * if settled { SETTLED } else { UNSETTLED });
        Phase::Using
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;

    fn choice() -> FlushChoice {
        FlushChoice::new(QueueSize::new(Layout::Split, 256).unwrap())
    }

    /// As on a processor that knows both ways; `None` where it does not, and says so.
    fn able() -> Option<FlushChoice> {
        let choice = choice();
        let able = choice.ways[1..].iter().all(Option::is_some);
        if !able {
            println!("this processor cannot give up single lines: nothing to choose");
        }
        able.then_some(choice)
    }

    fn burst(choice: &mut FlushChoice, waited: bool) {
        if waited {
            choice.polled(0);
        }
        choice.polled(32);
    }

    /// One comparison in which chains took so many nanoseconds.
    fn found(choice: &mut FlushChoice, took: [u64; WAYS]) {
        choice.took = took.map(|ns| ns * 1000);
        choice.judge();
        choice.phase = choice.use_best();
    }

    #[test]
    fn most_of_the_latest_comparisons_decide() {
        let Some(mut choice) = able() else { return };
        let (near, far) = ([70, 50, 80], [140, 140, 110]);
        (0..VOTES).for_each(|_| found(&mut choice, near));
        assert_eq!(choice.current, None, "as many against it as for it");
        found(&mut choice, near);
        assert_eq!(choice.current, Flush::write_back());
        (0..100).for_each(|_| found(&mut choice, near));
        // An interrupt in one of them is no move.
        found(&mut choice, [70, 500, 80]);
        assert_eq!(choice.current, Flush::write_back());
        (0..=VOTES).for_each(|_| found(&mut choice, far));
        assert_eq!(choice.current, Flush::evict());
        // What is as good as nothing is not done.
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [100, 97, 96]));
        assert_eq!(choice.current, None);
    }

    #[test]
    fn of_two_that_help_the_better_one_is_taken() {
        let Some(mut choice) = able() else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [100, 70, 90]));
        assert_eq!(choice.current, Flush::write_back());
        (0..=VOTES).for_each(|_| found(&mut choice, [100, 90, 70]));
        assert_eq!(choice.current, Flush::evict());
        (0..=VOTES).for_each(|_| found(&mut choice, [100, 70, 90]));
        assert_eq!(choice.current, Flush::write_back());
    }

    #[test]
    fn a_driver_that_has_nothing_to_send_says_nothing() {
        let Some(mut choice) = able() else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        let (votes, last) = (choice.votes, choice.last_is_best);
        (0..100).for_each(|_| found(&mut choice, [5000, 50, 50]));
        (0..100).for_each(|_| found(&mut choice, [70, 70, 5000]));
        assert_eq!((choice.votes, choice.last_is_best), (votes, last));
    }

    #[test]
    fn each_way_has_as_many_rounds() {
        let Some(mut choice) = able() else { return };
        let (mut changing, mut timed, mut using) = ([0; WAYS], [0; WAYS], 0);
        let bursts = 8 * (UNSETTLED + (WAYS as u32) * (CHANGING + TIMED));
        for _ in 0..bursts {
            match choice.phase {
                Phase::Using => using += 1,
                Phase::Changing(way) => changing[way] += 1,
                Phase::Timing(way, _) => timed[way] += 1,
            }
            if let Phase::Changing(way) | Phase::Timing(way, _) = choice.phase {
                assert_eq!(choice.current, choice.ways[way]);
            }
            burst(&mut choice, true);
        }
        assert!(matches!(choice.phase, Phase::Using));
        assert_eq!(using, 8 * UNSETTLED);
        assert_eq!((changing, timed), ([8 * CHANGING; WAYS], [8 * TIMED; WAYS]));
    }

    #[test]
    fn nothing_is_compared_where_the_driver_is_ahead() {
        let mut choice = choice();
        for i in 0..8 * 10 * SETTLED {
            burst(&mut choice, i % (2 * u32::from(BURSTS_PER_WAIT)) == 0);
            assert!(matches!(choice.phase, Phase::Using));
        }
    }

    /// A driver that was waited for goes on to one that is not: what was found for it ends.
    #[test]
    fn nothing_is_given_up_for_long_where_the_driver_is_ahead() {
        let Some(mut choice) = able() else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        // Some comparisons more than it takes: one in which this thread was interrupted says nothing.
        let comparison = WAYS as u32 * (CHANGING + TIMED);
        let bursts = 8 * (SETTLED + 20 * (UNSETTLED + comparison));
        for _ in 0..bursts {
            burst(&mut choice, false);
        }
        assert!(choice.votes[1] <= 0);
    }

    #[test]
    fn lines_are_given_up_only_when_there_is_time_to_spare() {
        let Some(mut choice) = able() else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        choice.polled(1);
        assert_eq!(choice.now(), None, "the driver was ahead");
        choice.polled(0);
        for _ in 0..BURSTS_PER_WAIT {
            choice.polled(1);
            assert_eq!(choice.now(), Flush::write_back());
        }
        choice.polled(1);
        assert_eq!(choice.now(), None);
    }
}
