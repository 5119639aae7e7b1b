//! The words of a port's file.
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use memory::{AtomicSlice, BindError, Mapping};
use virtqueue::Position;

/// What a file begins with; another layout gets another number.
const MAGIC: u64 = u64::from_be_bytes(*b"TAUTDLV1");
const HEADER_WORDS: usize = 8;

/// Notes of one burst: a flood to more ports than that is not noted for the rest.
pub(crate) const MAX_NOTES: usize = 64;
/// A cache line for each.
pub(crate) const NOTE_WORDS: usize = 8;
/// Frames of a burst, a bit for each.
pub(crate) const FRAME_WORDS: usize = 4;

const RECEIVER_WORDS: usize = 8;
const SENDER_WORDS: usize = 8 + MAX_NOTES * NOTE_WORDS;
const PAIR_WORDS: usize = RECEIVER_WORDS + SENDER_WORDS;

/// The words of one port, mapped.
#[derive(Debug)]
pub struct Area {
    mapping: Arc<Mapping>,
    pairs: u16,
    /// Names these words to others: a file that is made anew has another.
    id: u64,
    /// The process that has it now.
    process: u64,
}

/// Those of one queue.
pub(crate) type Words = AtomicSlice<AtomicU64>;

/// A number that other processes do not have, and never 0.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

/// This process.
static PROCESS: LazyLock<u64> = LazyLock::new(random);

/// Where the used side of a ring stands, as a word.
pub(crate) fn mark(position: Position) -> u64 {
    match position {
        Position::Split { next_used, .. } => next_used.into(),
        Position::Packed { next_used, .. } => u64::from(next_used.slot) | (u64::from(next_used.wrap) << 15),
    }
}

impl Area {
    /// Bytes for so many queue pairs.
    pub(crate) fn bytes(pairs: u16) -> u64 {
        (8 * (HEADER_WORDS + usize::from(pairs) * PAIR_WORDS)) as u64
    }

    /// What this process does with the words; those of another layout are made anew.
    pub(crate) fn open(mapping: &Arc<Mapping>, pairs: u16) -> Result<Self, BindError> {
        Self::opened_by(mapping, pairs, *PROCESS)
    }

    pub(crate) fn opened_by(mapping: &Arc<Mapping>, pairs: u16, process: u64) -> Result<Self, BindError> {
        let words = Words::new(mapping, 0, HEADER_WORDS + usize::from(pairs) * PAIR_WORDS, 0)?;
        // Of however many pairs: those of a queue are at the same place.
        if words[0].load(Ordering::Relaxed) != MAGIC {
            words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            words[1].store(random(), Ordering::Relaxed);
            words[0].store(MAGIC, Ordering::Release);
        }
        let id = words[1].load(Ordering::Relaxed);
        Ok(Area { mapping: Arc::clone(mapping), pairs, id, process })
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

    /// Of the receiveq of a pair, if there is such a pair.
    pub(crate) fn receiver(&self, pair: u16) -> Option<Words> {
        self.words(pair, 0, RECEIVER_WORDS)
    }

    /// Of the transmitq of a pair, if there is such a pair.
    pub(crate) fn sender(&self, pair: u16) -> Option<Words> {
        self.words(pair, RECEIVER_WORDS, SENDER_WORDS)
    }
}
