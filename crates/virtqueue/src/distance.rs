//! How far away the driver's core is, and what follows for the lines that it writes next.
//!
//! A line that was read stays in this core's cache. Before the driver can write it again, every other copy
//! must go. Cores that share a cache settle that in a few nanoseconds. Across dies or sockets it takes longer
//! than a fetch from memory: there it is kinder to send the line to memory as soon as it has been read
//! (`docs/decisions/far-drivers.md`). That costs this core time, so it is done only where both hold:
//!
//! - The driver is *far*: what it has just published takes about as long to get here as a line from memory.
//!   Both are measured now and then, one right after the other: virtual CPUs wander.
//! - The driver is *waited for*: the polls before this burst were in vain, so there is time to spare.
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memory::Evict;

/// Bursts from one look at the distance to the next.
const BURSTS: u16 = 128;
/// Polls that may be timed in one look before it is given up: an idle queue is not to be slow for ever.
const TRIES: u16 = 256;
/// Polls in vain that take about as long as sending away the lines of the burst that they waited for. With less
/// to spare this core would become the one that is waited for.
const PATIENCE: u8 = 16;
/// With a clock that itself takes longer than this nothing is to be seen.
const CLOCK: Duration = Duration::from_nanos(100);
/// The driver is far if more of the latest looks say so than not; so many of them count.
const VOTES: i8 = 8;

/// What one queue knows of its driver's distance.
pub(crate) struct Distance {
    evict: Option<Evict>,
    /// Bursts until the next look.
    bursts: u16,
    tries: u16,
    /// Looks that said far less those that said near, within limits.
    votes: i8,
    /// The latest polls that were in vain, up to [`PATIENCE`].
    vain: u8,
    /// The last poll found a burst after so many in vain.
    waited: bool,
    line: Box<OwnLine>,
}

/// A line that nobody else has.
#[repr(align(128))]
struct OwnLine(AtomicU64);

impl Distance {
    /// Nothing is known; drivers are near until they are found to be far.
    pub fn new() -> Self {
        Distance {
            evict: Evict::detect(),
            bursts: BURSTS,
            tries: TRIES,
            votes: -VOTES,
            vain: 0,
            waited: false,
            line: Box::new(OwnLine(AtomicU64::new(0))),
        }
    }

    /// Whether the next poll should be made through [`Distance::look`] first. Only one that follows a poll in
    /// vain tells something: what it finds has certainly come from the driver's cache.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.bursts == 0 && self.vain > 0
    }

    /// Times `poll`, which reads what the driver publishes and says whether it is news.
    #[cold]
    pub fn look(&mut self, poll: impl FnOnce() -> bool) {
        let (news, transfer) = timed(poll);
        self.tries -= 1;
        if news && let Some(evict) = self.evict {
            evict.value(&self.line.0);
            evict.wait();
            let ((), memory) = timed(|| _ = black_box(self.line.0.load(Ordering::Relaxed)));
            let ((), clock) = timed(|| ());
            self.vote(transfer, memory, clock);
        }
        if news || self.tries == 0 {
            (self.bursts, self.tries) = (BURSTS, TRIES);
        }
    }

    /// Without the clock's share, a driver that shares a cache with this core was at a sixth of the memory's
    /// time, one on another die at its whole.
    fn vote(&mut self, transfer: Duration, memory: Duration, clock: Duration) {
        let (transfer, memory) = (transfer.saturating_sub(clock), memory.saturating_sub(clock));
        let far = clock <= CLOCK && transfer * 4 > memory * 3;
        self.votes = (self.votes + if far { 1 } else { -1 }).clamp(-VOTES, VOTES);
    }

    /// To be told of each poll whether it found anything.
    #[inline(always)]
    pub fn polled(&mut self, found: bool) {
        self.waited = found && self.vain >= PATIENCE;
        self.vain = if found { 0 } else { PATIENCE.min(self.vain + 1) };
        self.bursts = self.bursts.saturating_sub(found.into());
    }

    /// The way to send lines of the last burst to memory, if that is a good idea.
    #[inline(always)]
    pub fn evict(&self) -> Option<Evict> {
        if self.votes > 0 && self.waited { self.evict } else { None }
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = what();
    (result, begin.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    const MEMORY: Duration = nanos(145);
    const NOW: Duration = nanos(30);

    fn waited_for(mut distance: Distance) -> Distance {
        (0..PATIENCE).for_each(|_| distance.polled(false));
        distance.polled(true);
        distance
    }

    #[test]
    fn most_of_the_latest_looks_decide() {
        let mut distance = waited_for(Distance::new());
        if distance.evict.is_none() {
            println!("this processor cannot send single lines to memory: nothing to decide");
            return;
        }
        assert!(distance.evict().is_none());
        (0..VOTES).for_each(|_| distance.vote(nanos(155), MEMORY, NOW));
        assert!(distance.evict().is_none(), "as many say near as far");
        distance.vote(nanos(155), MEMORY, NOW);
        assert!(distance.evict().is_some());
        (0..100).for_each(|_| distance.vote(nanos(155), MEMORY, NOW));
        // An interrupt in one look is not a move; what lies long ago counts no more.
        distance.vote(nanos(40), MEMORY, NOW);
        assert!(distance.evict().is_some());
        (0..VOTES).for_each(|_| distance.vote(nanos(40), MEMORY, NOW));
        assert!(distance.evict().is_none());
    }

    #[test]
    fn a_slow_clock_shows_nothing_far() {
        let mut distance = waited_for(Distance::new());
        (0..100).for_each(|_| distance.vote(nanos(700), nanos(700), nanos(500)));
        assert!(distance.evict().is_none());
    }

    #[test]
    fn lines_go_only_when_there_is_time_to_spare() {
        let mut distance = Distance::new();
        (0..100).for_each(|_| distance.vote(nanos(155), MEMORY, NOW));
        let able = distance.evict.is_some();
        distance.polled(true);
        assert!(distance.evict().is_none(), "the driver was ahead");
        (1..PATIENCE).for_each(|_| distance.polled(false));
        distance.polled(true);
        assert!(distance.evict().is_none(), "it was nearly ahead");
        let mut distance = waited_for(distance);
        assert_eq!(distance.evict().is_some(), able);
        distance.polled(true);
        assert!(distance.evict().is_none());
    }

    #[test]
    fn looks_are_rare_and_end() {
        let mut distance = Distance::new();
        for _ in 0..BURSTS {
            distance.polled(false);
            assert!(!distance.is_due());
            distance.polled(true);
        }
        assert!(!distance.is_due(), "what comes next may have come long ago");
        // An idle queue: after some polls it is left alone until there were bursts again.
        for _ in 0..TRIES {
            distance.polled(false);
            assert!(distance.is_due());
            distance.look(|| false);
        }
        distance.polled(false);
        assert!(!distance.is_due());
        // News ends a look at once.
        (0..BURSTS).for_each(|_| distance.polled(true));
        distance.polled(false);
        assert!(distance.is_due());
        distance.look(|| true);
        assert!(!distance.is_due());
    }
}
