//! The words of a port's file.
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use memory::{AtomicSlice, BindError, Mapping};
use virtqueue::Position;

/// The number at the start of a file; each layout has its own number.
const MAGIC: u64 = u64::from_be_bytes(*b"TAUTDLV1");
const HEADER_WORDS: usize = 8;

/// The most notes of one burst. If a flood reaches more ports, the further ones are not noted.
pub(crate) const MAX_NOTES: usize = 64;
/// Words of a note, which fill a cache line.
pub(crate) const NOTE_WORDS: usize = 8;
/// Words for the frames of a burst, with a bit for each frame.
pub(crate) const FRAME_WORDS: usize = 4;

const RECEIVER_WORDS: usize = 8;
const SENDER_WORDS: usize = 8 + MAX_NOTES * NOTE_WORDS;
const PAIR_WORDS: usize = RECEIVER_WORDS + SENDER_WORDS;

/// The mapped words of one port.
#[derive(Debug)]
pub struct Area {
    mapping: Arc<Mapping>,
    pairs: u16,
    /// Identifies the words of this area. A file that is made anew has another id.
    id: u64,
    /// The process that uses the words now.
    process: u64,
}

/// The words of one queue.
pub(crate) type Words = AtomicSlice<AtomicU64>;

/// A random number that other processes do not have, and never 0.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

/// This process.
static PROCESS: LazyLock<u64> = LazyLock::new(random);

/// The position of a ring's used side, as a word.
pub(crate) fn mark(position: Position) -> u64 {
    match position {
        Position::Split { next_used, .. } => next_used.into(),
        Position::Packed { next_used, .. } => u64::from(next_used.slot) | (u64::from(next_used.wrap) << 15),
    }
}

impl Area {
    /// The bytes for `pairs` queue pairs.
    pub(crate) fn bytes(pairs: u16) -> u64 {
        (8 * (HEADER_WORDS + usize::from(pairs) * PAIR_WORDS)) as u64
    }

    /// Takes the words into use for this process. Words of another layout are made anew.
    pub(crate) fn open(mapping: &Arc<Mapping>, pairs: u16) -> Result<Self, BindError> {
        Self::opened_by(mapping, pairs, *PROCESS)
    }

    pub(crate) fn opened_by(mapping: &Arc<Mapping>, pairs: u16, process: u64) -> Result<Self, BindError> {
        let words = Words::new(mapping, 0, HEADER_WORDS + usize::from(pairs) * PAIR_WORDS, 0)?;
        // The number of pairs does not matter: the words of a queue are always at the same place.
        if words[0].load(Ordering::Relaxed) != MAGIC {
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            words[1].store(random(), Ordering::Relaxed);
            words[0].store(MAGIC, Ordering::Release);
        }
        let id = words[1].load(Ordering::Relaxed);
        Ok(Area { mapping: Arc::clone(mapping), pairs, id, process })
    }

    /// Bytes of the words.
    pub(crate) fn len_bytes(&self) -> u64 {
        Self::bytes(self.pairs)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    fn words(&self, pair: u16, at: usize, count: usize) -> Option<Words> {
        let offset = 8 * (HEADER_WORDS + usize::from(pair) * PAIR_WORDS + at) as u64;
        (pair < self.pairs).then(|| Words::new(&self.mapping, offset, count, offset).ok()).flatten()
    }

    /// The words of a pair's receiveq; `None` if there is no such pair.
    pub(crate) fn receiver(&self, pair: u16) -> Option<Words> {
        self.words(pair, 0, RECEIVER_WORDS)
    }

    /// The words of a pair's transmitq; `None` if there is no such pair.
    pub(crate) fn sender(&self, pair: u16) -> Option<Words> {
        self.words(pair, RECEIVER_WORDS, SENDER_WORDS)
    }
}
