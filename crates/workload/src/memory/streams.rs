//! The two arrays of the bandwidth metrics, and the operations on them.

use measure::Failure;

use crate::opaque::hide_u64;
use crate::sys::{Area, Pages};

/// The operation on the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Read,
    Write,
    Copy,
}

impl Traffic {
    pub(crate) const ALL: [Traffic; 3] = [Traffic::Read, Traffic::Write, Traffic::Copy];

    /// The last word of the metric's name and the title.
    pub(crate) fn names(self) -> (&'static str, &'static str) {
        match self {
            Traffic::Read => ("read", "memory read bandwidth"),
            Traffic::Write => ("write", "memory write bandwidth"),
            Traffic::Copy => ("copy", "memory copy bandwidth, bytes copied"),
        }
    }
}

/// The length of each of the two arrays, in bytes.
pub(super) const ARRAY_BYTES: usize = 64 << 20;

/// The number of bytes that one unit of work processes; the next unit continues behind them.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_WORDS: usize = CHUNK_BYTES / size_of::<u64>();

/// The two arrays, kept between trials. Word `i` of the source holds `i`.
#[derive(Debug)]
pub(crate) struct Streams {
    source: Area,
    target: Area,
    next_chunk: usize,
}

impl Streams {
    /// Maps and fills the two arrays.
    ///
    /// # Errors
    /// The system refuses 64 MiB of memory for each array.
    pub fn new() -> Result<Self, Failure> {
        let map = || {
            Area::map(ARRAY_BYTES, Pages::Small).map_err(|error| {
                let tried = format!("mapping {} MiB of memory", ARRAY_BYTES >> 20);
                Failure::new(tried, error, "allow the agent more memory")
            })
        };
        let (mut source, mut target) = (map()?, map()?);
        for (at, (from, to)) in source.words_mut().iter_mut().zip(target.words_mut()).enumerate() {
            (*from, *to) = (at as u64, 1);
        }
        Ok(Streams { source, target, next_chunk: 0 })
    }

    /// Takes the next chunk: its first word's index, its source and its target.
    fn next(&mut self) -> (usize, &[u64], &mut [u64]) {
        let first = self.next_chunk * CHUNK_WORDS;
        self.next_chunk = (self.next_chunk + 1) % (ARRAY_BYTES / CHUNK_BYTES);
        let range = first..first + CHUNK_WORDS;
        (first, &self.source.words()[range.clone()], &mut self.target.words_mut()[range])
    }

    /// Processes one chunk. Returns false if the memory did not contain the expected values.
    pub fn run(&mut self, traffic: Traffic) -> bool {
        let (first, source, target) = self.next();
        match traffic {
            Traffic::Read => {
                let sum = source.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
                let (first, count) = (first as u64, CHUNK_WORDS as u64);
                hide_u64(sum) == first * count + count * (count - 1) / 2
            }
            // A plain `fill` or `copy_from_slice` would become a library call, which chooses its instructions by the
            // CPU. The work must be the same in every environment.
            Traffic::Write => {
                let value = hide_u64(0x0123_4567_89ab_cdef);
                target.fill(value);
                hide_u64(target[CHUNK_WORDS / 2]) == value
            }
            Traffic::Copy => {
                let unchanged = hide_u64(0);
                for (to, from) in target.iter_mut().zip(source) {
                    *to = *from ^ unchanged;
                }
                hide_u64(target[CHUNK_WORDS / 2]) == (first + CHUNK_WORDS / 2) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_checked() {
        let mut streams = Streams::new().unwrap();
        for traffic in [Traffic::Read, Traffic::Write, Traffic::Copy] {
            assert!(streams.run(traffic), "{traffic:?}");
        }
        let (chunk, half) = (streams.next_chunk, CHUNK_WORDS / 2);
        streams.source.words_mut()[chunk * CHUNK_WORDS + half] ^= 1;
        assert!(!streams.run(Traffic::Read));
        streams.next_chunk = chunk;
        assert!(!streams.run(Traffic::Copy));
    }
}
