//! The two ways in which bytes get to a receiver, and which of them suits it.
use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use memory::{LINE_BYTES, SharedSlice, Stream, read_between};

use crate::Lending;

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

/// Bursts from one comparison to the next.
const BURSTS: u16 = 128;
/// Frames that are written in each manner to compare them.
const FRAMES: usize = 8;
/// Shorter frames are not compared: there is little to be gained, and too little to be seen.
const LEAST_BYTES: usize = 256;
/// So much must be saved with each line: somewhat more than it costs a receiver that shares a cache with this core
/// to fetch the line from memory instead. Measured in the running switch: nearly always 16 to 36 ns saved if the
/// receiver reads its frames on another die, 8 at most if it does so where a cache is shared; nothing if it does
/// not read them.
const SAVED_NANOS: u64 = 13;
/// The majority of so many of the latest comparisons decides.
const VOTES: i8 = 4;

/// What suits one receiver: found out by doing both now and then.
#[derive(Debug)]
pub(crate) struct Choice {
    stream: Option<Stream>,
    /// Until the next comparison.
    bursts: u16,
    /// Comparisons that spoke for streaming less those against it, within limits.
    votes: i8,
}

impl Choice {
    /// Through the caches until something else is found to be better.
    pub fn new() -> Self {
        Choice { stream: Stream::detect(), bursts: BURSTS, votes: -VOTES }
    }

    /// Streams, whatever the comparisons say at first.
    #[cfg(test)]
    pub fn streaming() -> Self {
        Choice { votes: VOTES, ..Choice::new() }
    }

    /// To stream with, where that is better.
    #[inline(always)]
    pub fn stream(&self) -> Option<Stream> {
        if self.votes > 0 { self.stream } else { None }
    }

    /// To be told of each burst: whether it should be used to compare, if it is fit for that.
    #[inline(always)]
    pub fn is_due(&mut self) -> bool {
        self.bursts -= 1;
        if self.bursts > 0 {
            return false;
        }
        self.bursts = BURSTS;
        true
    }

    /// Which frames to compare with, if these are fit for it.
    pub fn trial<'a>(&self, lending: &Lending, which: &'a [u16]) -> Option<Trial<'a>> {
        let stream = self.stream?;
        let (cached, streamed) = which.get(..2 * FRAMES)?.split_at(FRAMES);
        let frames = || cached.iter().chain(streamed).map(|index| lending.frame(usize::from(*index)));
        if frames().any(|frame| frame.len_bytes() < LEAST_BYTES) {
            return None;
        }
        // They come from their sender now, so that the way from there is in neither time. (Of longer ones it is in
        // both.)
        let mut bytes = [0; 2048];
        for frame in frames() {
            let (pieces, skip) = frame.pieces();
            black_box(read_between(pieces.iter().copied(), skip, &mut bytes));
        }
        Some(Trial { stream, cached, streamed })
    }

    /// Compares what a line took.
    pub fn judge(&mut self, Nanos(cached): Nanos, Nanos(streamed): Nanos) {
        let better = cached > streamed + SAVED_NANOS;
        self.votes = (self.votes + if better { 1 } else { -1 }).clamp(-VOTES, VOTES);
    }
}

/// As many frames for each manner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial<'a> {
    pub stream: Stream,
    pub cached: &'a [u16],
    pub streamed: &'a [u16],
}

/// Time for one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nanos(u64);

/// How long a line takes until it is there; nothing if `deliver` does not say how many bytes it was.
pub(crate) fn timed(deliver: impl FnOnce() -> Option<u64>) -> Option<Nanos> {
    // Neither what was stored before nor what still is to be stored counts.
    fence(Ordering::SeqCst);
    let begin = Instant::now();
    let bytes = deliver()?;
    fence(Ordering::SeqCst);
    Some(Nanos(begin.elapsed().as_nanos() as u64 * LINE_BYTES as u64 / bytes.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAMED: Nanos = Nanos(5);

    #[test]
    fn the_latest_comparisons_decide() {
        let mut choice = Choice::new();
        if choice.stream.is_none() {
            println!("this processor has no stores that go past the caches: nothing to choose");
            return;
        }
        let far = Nanos(25);
        assert!(choice.stream().is_none());
        (0..VOTES).for_each(|_| choice.judge(far, STREAMED));
        assert!(choice.stream().is_none(), "as many against it as for it");
        choice.judge(far, STREAMED);
        assert!(choice.stream().is_some());
        (0..100).for_each(|_| choice.judge(far, STREAMED));
        let near = Nanos(12);
        (1..VOTES).for_each(|_| choice.judge(near, STREAMED));
        assert!(choice.stream().is_some(), "the receiver was interrupted, not moved");
        choice.judge(near, STREAMED);
        assert!(choice.stream().is_none());
    }

    #[test]
    fn comparisons_are_rare() {
        let mut choice = Choice::new();
        let due = (0..10 * usize::from(BURSTS)).filter(|_| choice.is_due()).count();
        assert_eq!(due, 10);
    }
}
