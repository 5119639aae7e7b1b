//! What is done with lines that this side has read, and that the driver writes next.
//!
//! A line that was read stays in this core's cache. Before the driver can write it again, that copy must go, and
//! its stores wait for that one after the other. Lines can be given up as soon as they have been read: written back
//! to memory, which leaves them to the driver's cache, or sent there altogether. Which of them helps, and whether one
//! does, depends on the processor and on how far the driver's core is (`docs/decisions/given-up-lines.md`), so it is
//! found out by doing: now and then some rounds of the ring are served in each way, and timed.
//!
//! It costs this core time, so it is done only while the driver is *waited for*: the poll before a burst was in vain.
use std::time::Instant;

use memory::Flush;

use crate::QueueSize;

/// Rounds of the ring from one comparison to the next, where the latest all said the same, and where they did not.
const SETTLED: u32 = 1024;
const UNSETTLED: u32 = 64;
/// Rounds before one way is timed: lines that were read in the way before have to be written once.
const CHANGING: u32 = 2;
/// Rounds that are timed. A driver may take back what is used once a round.
const TIMED: u32 = 4;
/// The part of its time that a chain must be faster by.
const GAIN: u64 = 16;
/// The majority of so many of the latest comparisons decides.
const VOTES: i8 = 4;

/// What is compared: nothing is done, and the two ways of giving up.
const WAYS: usize = 3;

/// What is good for the driver of one queue.
pub(crate) struct FlushChoice {
    ways: [Option<Flush>; WAYS],
    /// The one of now.
    current: Option<Flush>,
    phase: Phase,
    /// Chains until the phase ends.
    left: u32,
    size: u32,
    /// The last poll was in vain.
    vain: bool,
    /// The last poll found a burst, and the one before was in vain.
    waited: bool,
    /// Bursts of this phase, and those that were waited for.
    bursts: u32,
    waits: u32,
    /// What a way's rounds took, ns; 0 where they say nothing.
    took: [u64; WAYS],
    /// For each way: comparisons that found it better than doing nothing less those that did not, within limits.
    votes: [i8; WAYS],
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
            left: UNSETTLED * size,
            size,
            vain: false,
            waited: false,
            bursts: 0,
            waits: 0,
            took: [0; WAYS],
            votes: [-VOTES; WAYS],
        }
    }

    /// To be told of each poll how many chains it found.
    #[inline(always)]
    pub fn polled(&mut self, chains: usize) {
        let found = chains > 0;
        self.waited = found && self.vain;
        self.vain = !found;
        self.bursts += u32::from(found);
        self.waits += u32::from(self.waited);
        self.left = self.left.saturating_sub(chains as u32);
        if self.left == 0 {
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
            // Where this core is the one that is waited for, nothing would be done anyway.
            Phase::Using if mostly_waited => self.change_to(0),
            Phase::Using => self.use_best(),
            Phase::Changing(way) => {
                self.left = TIMED * self.size;
                Phase::Timing(way, Instant::now())
            }
            Phase::Timing(way, begun) => {
                let took = begun.elapsed().as_nanos() as u64;
                self.took[way] = if mostly_waited { took } else { 0 };
                let able = |way: &usize| self.ways[*way].is_some();
                match (way + 1..WAYS).find(able) {
                    Some(next) => self.change_to(next),
                    None => {
                        self.judge();
                        self.use_best()
                    }
                }
            }
        };
    }

    fn change_to(&mut self, way: usize) -> Phase {
        self.current = self.ways[way];
        self.left = CHANGING * self.size;
        Phase::Changing(way)
    }

    /// Votes by what was timed.
    fn judge(&mut self) {
        let nothing = std::mem::take(&mut self.took[0]);
        for (took, votes) in self.took.iter_mut().zip(&mut self.votes).skip(1) {
            let took = std::mem::take(took);
            if took > 0 && nothing > 0 {
                let better = took + took / GAIN < nothing;
                *votes = (*votes + if better { 1 } else { -1 }).clamp(-VOTES, VOTES);
            }
        }
    }

    fn use_best(&mut self) -> Phase {
        let best = (1..WAYS).max_by_key(|&way| self.votes[way]).filter(|&way| self.votes[way] > 0);
        self.current = best.and_then(|way| self.ways[way]);
        let settled = self.votes.iter().all(|votes| votes.abs() == VOTES);
        self.left = self.size * if settled { SETTLED } else { UNSETTLED };
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

    /// One comparison in which rounds took so long.
    fn found(choice: &mut FlushChoice, took: [u64; WAYS]) {
        choice.took = took;
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
        found(&mut choice, [70, 5000, 80]);
        assert_eq!(choice.current, Flush::write_back());
        (0..=VOTES).for_each(|_| found(&mut choice, far));
        assert_eq!(choice.current, Flush::evict());
        // What is as good as nothing is not done.
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [100, 97, 96]));
        assert_eq!(choice.current, None);
        // Nothing was seen: nothing changes.
        let votes = choice.votes;
        (0..100).for_each(|_| found(&mut choice, [0, 50, 50]));
        (0..100).for_each(|_| found(&mut choice, [100, 0, 0]));
        assert_eq!(choice.votes, votes);
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
            burst(&mut choice, i % 2 == 0);
            assert!(matches!(choice.phase, Phase::Using));
        }
        // It falls back now and then, and most of the time in the middle of a comparison.
        let Some(mut choice) = able() else { return };
        while !matches!(choice.phase, Phase::Timing(2, _)) {
            burst(&mut choice, true);
        }
        while matches!(choice.phase, Phase::Timing(..)) {
            burst(&mut choice, false);
        }
        assert_eq!(choice.votes[2], -VOTES);
        assert_eq!(choice.took, [0; WAYS]);
    }

    #[test]
    fn lines_are_given_up_only_when_there_is_time_to_spare() {
        let Some(mut choice) = able() else { return };
        (0..=2 * VOTES).for_each(|_| found(&mut choice, [70, 50, 80]));
        choice.polled(1);
        assert_eq!(choice.now(), None, "the driver was ahead");
        choice.polled(0);
        choice.polled(1);
        assert_eq!(choice.now(), Flush::write_back());
        choice.polled(1);
        assert_eq!(choice.now(), None);
    }
}
