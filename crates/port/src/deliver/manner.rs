//! The two ways in which bytes get to a receiver, and which of them suits it.
use std::time::Instant;

use memory::{LINE_BYTES, SharedSlice, Stream};

use crate::SNAPSHOT_BYTES;

/// How bytes get to a receiver.
pub(crate) trait Manner: Copy {
    /// As [`SharedSlice::copy_to`].
    fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize;

    /// As [`SharedSlice::write_array`], of an array that fits.
    fn write<const N: usize>(self, from: &[u8; N], to: SharedSlice<'_>, offset: usize);

    /// Called behind the last of some frames, before their receiver is told of them.
    fn finish(self);
}

/// Through the caches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached;

impl Manner for Cached {
    #[inline(always)]
    fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize {
        from.copy_to(to)
    }

    #[inline(always)]
    fn write<const N: usize>(self, from: &[u8; N], to: SharedSlice<'_>, offset: usize) {
        to.write_array(offset, from);
    }

    #[inline(always)]
    fn finish(self) {}
}

impl Manner for Stream {
    #[inline(always)]
    fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize {
        Stream::copy(self, from, to)
    }

    #[inline(always)]
    fn write<const N: usize>(self, from: &[u8; N], to: SharedSlice<'_>, offset: usize) {
        Stream::write(self, from, to.slice(offset, N));
    }

    #[inline(always)]
    fn finish(self) {
        Stream::finish(self);
    }
}

/// Bursts from one comparison to the next, where the latest all said the same, and where they did not.
const SETTLED: u16 = 1024;
const UNSETTLED: u16 = 128;
/// Bursts that are written in each manner to compare them.
const STRETCH: u16 = 16;
/// The first ones of a stretch do not count: they wait for stores that the other manner has left behind.
const LEFT_BEHIND: u16 = 2;
/// Frames of a burst that counts; of fewer the clock and the ring are most of what is seen.
const LEAST_FRAMES: u64 = 16;
/// Bursts that count in a stretch that says something.
const LEAST_BURSTS: u16 = STRETCH / 2;
/// So much must be saved with each line: somewhat more than it costs a receiver that shares a cache with this core
/// to fetch the line from memory instead (`docs/decisions/past-the-caches.md`).
const SAVED_NANOS: u64 = 10;
/// The majority of so many of the latest comparisons decides.
const VOTES: i8 = 4;

/// What suits one receiver: found out by doing both now and then, some bursts in one manner and some in the other.
///
/// Bursts are timed as a whole and under load, with the barrier that the look for a driver that waits takes at their
/// end: stores then wait for those before them, and that is what they cost. (A few alone cost half of it, on cores far
/// from each other.)
#[derive(Debug)]
pub(crate) struct Choice {
    able: Option<Stream>,
    /// What to do with the next burst.
    current: Option<Stream>,
    /// Until the end of the next comparison: it takes the last ones.
    bursts: u16,
    cached: Spent,
    streamed: Spent,
    /// Comparisons that spoke for streaming less those against it, within limits.
    votes: i8,
}

/// What one manner has taken in a comparison.
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

    /// Whether both have seen enough, and the same: a line of a small frame takes longer than one of a large.
    fn is_like(self, other: Spent) -> bool {
        let (own, others) = (self.frame_bytes(), other.frame_bytes());
        self.bursts.min(other.bursts) >= LEAST_BURSTS && own.abs_diff(others) <= own.min(others) / 4
    }
}

impl Choice {
    /// Through the caches until something else is found to be better.
    pub fn new() -> Self {
        Choice {
            able: Stream::detect(),
            current: None,
            bursts: SETTLED,
            cached: Spent::default(),
            streamed: Spent::default(),
            votes: -VOTES,
        }
    }

    /// Compares soon; until then it streams or does not, whatever is better.
    #[cfg(test)]
    pub fn for_test(streams: bool) -> Self {
        let stream = Stream::detect().filter(|_| streams);
        let votes = if streams { VOTES } else { -VOTES };
        Choice { current: stream, bursts: 3 * STRETCH, votes, ..Choice::new() }
    }

    /// To be called before each burst; the time, if this one is compared.
    #[inline(always)]
    pub fn begin(&mut self) -> Option<Instant> {
        self.bursts -= 1;
        if self.bursts >= 2 * STRETCH { None } else { self.compare() }
    }

    #[cold]
    fn compare(&mut self) -> Option<Instant> {
        let Some(stream) = self.able else {
            self.bursts = SETTLED;
            return None;
        };
        self.current = (self.bursts < STRETCH).then_some(stream);
        Some(Instant::now())
    }

    /// To stream the burst with, if it is to be streamed.
    #[inline(always)]
    pub fn stream(&self) -> Option<Stream> {
        self.current
    }

    /// To be called after a burst that is compared, with what was delivered of it.
    #[cold]
    pub fn end(&mut self, begun: Instant, frames: u64, bytes: u64) {
        let ns = begun.elapsed().as_nanos() as u64;
        let counts = self.bursts % STRETCH < STRETCH - LEFT_BEHIND
            && frames >= LEAST_FRAMES
            // Shorter ones fill no line, so they never go past the caches.
            && bytes >= frames * SNAPSHOT_BYTES as u64;
        if counts {
            let spent = if self.bursts < STRETCH { &mut self.streamed } else { &mut self.cached };
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
        let (cached, streamed) = (std::mem::take(&mut self.cached), std::mem::take(&mut self.streamed));
        if cached.is_like(streamed) {
            let better = cached.line_ns() > streamed.line_ns() + SAVED_NANOS;
            self.votes = (self.votes + if better { 1 } else { -1 }).clamp(-VOTES, VOTES);
        }
        self.bursts = if self.votes.abs() == VOTES { SETTLED } else { UNSETTLED };
        self.current = self.able.filter(|_| self.votes > 0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STREAMED: u64 = 5;
    const HOUR: Duration = Duration::from_secs(3600);

    /// One comparison in which a line took so long.
    fn found(choice: &mut Choice, cached_ns: u64) {
        let spent = |ns| Spent { bursts: STRETCH, ns: ns * 100, frames: 100, bytes: 100 * LINE_BYTES as u64 };
        (choice.cached, choice.streamed) = (spent(cached_ns), spent(STREAMED));
        choice.judge();
    }

    #[test]
    fn the_latest_comparisons_decide() {
        let mut choice = Choice::new();
        if choice.able.is_none() {
            println!("this processor has no stores that go past the caches: nothing to choose");
            return;
        }
        let (near, far) = (12, 25);
        assert!(choice.stream().is_none());
        (0..VOTES).for_each(|_| found(&mut choice, far));
        assert!(choice.stream().is_none(), "as many against it as for it");
        found(&mut choice, far);
        assert!(choice.stream().is_some());
        (0..100).for_each(|_| found(&mut choice, far));
        (1..VOTES).for_each(|_| found(&mut choice, near));
        assert!(choice.stream().is_some(), "the receiver was interrupted, not moved");
        found(&mut choice, near);
        assert!(choice.stream().is_none());
        // Nothing was seen: nothing changes.
        (0..100).for_each(|_| choice.judge());
        assert_eq!(choice.votes, 0);
    }

    #[test]
    fn comparisons_are_rare_and_both_manners_have_as_many_bursts() {
        let mut choice = Choice::new();
        if choice.able.is_none() {
            println!("this processor has no stores that go past the caches: nothing to compare");
            return;
        }
        let (mut compared, mut counted) = ([0, 0], [0, 0]);
        for _ in 0..10 * u32::from(SETTLED) {
            let Some(begun) = choice.begin() else { continue };
            compared[usize::from(choice.stream().is_some())] += 1;
            let before = [choice.cached.bursts, choice.streamed.bursts];
            // No time has passed, whoever was interrupted.
            choice.end(begun + HOUR, 32, 32 * 64);
            let after = [choice.cached.bursts, choice.streamed.bursts];
            (0..2).for_each(|i| counted[i] += u32::from(after[i].saturating_sub(before[i])));
        }
        let each = 10 * u32::from(STRETCH);
        assert_eq!(compared, [each; 2]);
        // The last of each comparison is judged at once.
        let left_behind = 10 * u32::from(LEFT_BEHIND);
        assert_eq!(counted, [each - left_behind, each - left_behind - 10]);
    }

    #[test]
    fn other_frames_are_not_held_against_each_other() {
        let spent = |frames, bytes| Spent { bursts: STRETCH, ns: 1, frames, bytes };
        assert!(spent(400, 400 * 64).is_like(spent(450, 450 * 64)));
        assert!(spent(400, 400 * 1518).is_like(spent(400, 400 * 1300)));
        assert!(!spent(400, 400 * 64).is_like(spent(400, 400 * 128)));
        assert!(!spent(400, 400 * 1518).is_like(spent(400, 400 * 64)));
        assert!(!spent(400, 400 * 64).is_like(Spent::default()));
    }

    #[test]
    fn few_frames_and_short_ones_say_nothing() {
        for (frames, bytes) in [(LEAST_FRAMES - 1, 1 << 20), (32, 32 * 60)] {
            let mut choice = Choice { votes: 1, ..Choice::new() };
            for _ in 0..SETTLED {
                if let Some(begun) = choice.begin() {
                    choice.end(begun, frames, bytes);
                }
            }
            assert_eq!(choice.votes, 1);
        }
    }
}
