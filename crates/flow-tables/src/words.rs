//! The words of a mask that have bits, and the bits of a frame's fields on which its passage depends.
use flow::{Field, Key};

use crate::compared::ALWAYS;

/// The words of a mask that are not zero.
#[derive(Clone, Debug)]
pub(crate) struct Words(Box<[(u8, u64)]>);

impl Words {
    pub(crate) fn of(mask: &Key) -> Self {
        let words = mask.words().iter().enumerate().filter(|(_, word)| **word != 0);
        Self(words.map(|(at, word)| (at as u8, *word)).collect()) // 51 words
    }

    pub(crate) fn hash(&self, seed: u64, key: &Key) -> u64 {
        self.0.iter().fold(seed, |hash, (at, mask)| {
            let product = u128::from(hash ^ key.words()[usize::from(*at)] & mask) * 0x9e37_79b9_7f4a_7c15;
            (product as u64) ^ (product >> 64) as u64
        })
    }

    /// The words with the values that a key has there.
    pub(crate) fn with<'a>(&'a self, value: &'a Key) -> impl Iterator<Item = Valued> + 'a {
        self.0.iter().map(|(at, mask)| Valued {
            at: *at,
            mask: *mask,
            value: value.words()[usize::from(*at)],
        })
    }
}

/// A word of a mask, and the value that is wanted there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valued {
    pub(crate) at: u8,
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

/// The bits of a frame's fields on which its passage through the tables depends. Frames with the same values of these
/// bits match the same flows, and are changed in the same way.
///
/// For a flow that does not match, one bit is enough in which the frame differs. A bit that the passage depends on
/// anyway is taken before others, then a bit that the passages of earlier frames depended on, of most of them first: so
/// frames that differ in many ways depend on few bits.
#[derive(Clone, Debug)]
pub(crate) struct Consulted {
    bits: [u64; Key::WORDS],
    /// The bits to take before others, the best first.
    preferred: [[u64; Key::WORDS]; 2],
    /// Whether registers and the connection are the same for all frames, or follow from fields that were consulted.
    is_first: bool,
}

impl Default for Consulted {
    fn default() -> Self {
        Self { bits: [0; Key::WORDS], preferred: [[0; Key::WORDS]; 2], is_first: false }
    }
}

impl Consulted {
    /// Begins a passage.
    pub(crate) fn begin(&mut self) {
        self.bits = *ALWAYS.words();
    }

    /// The bits to take before others, the best first, and whether only the frame's own fields tell frames apart.
    pub(crate) fn prefer(&mut self, bits: [&Key; 2], is_first: bool) {
        (self.preferred, self.is_first) = (bits.map(|bits| *bits.words()), is_first);
    }

    /// Those of the bits that are among others.
    pub(crate) fn among(&self, others: &Key) -> Key {
        let mut bits = *others;
        bits.keep(&self.bits);
        bits
    }

    /// The passage depends on all bits of these words.
    pub(crate) fn add(&mut self, words: &Words) {
        for (at, mask) in &words.0 {
            self.bits[usize::from(*at)] |= mask;
        }
    }

    /// The passage depends on all these bits.
    pub(crate) fn add_all(&mut self, bits: &Key) {
        self.bits.iter_mut().zip(bits.words()).for_each(|(word, bits)| *word |= bits);
    }

    /// Whether a key differs from these values. If it does, the passage depends on one bit in which it differs.
    #[inline]
    pub(crate) fn differs(&mut self, key: &Key, words: impl Iterator<Item = Valued>) -> bool {
        let mut chosen: Option<(u8, usize, u64)> = None;
        for Valued { at, mask, value } in words {
            let at = usize::from(at);
            let differ = (key.words()[at] ^ value) & mask;
            if differ == 0 {
                continue;
            }
            if differ & self.bits[at] != 0 {
                return true;
            }
            let is_free = self.is_first && !Field::FRAME_WORDS.contains(&at);
            let preferred = self.preferred.map(|bits| differ & bits[at]);
            let choice = match preferred {
                _ if is_free => (0, at, differ),
                [0, 0] => (3, at, differ),
                [0, other] => (2, at, other),
                [best, _] => (1, at, best),
            };
            if chosen.is_none_or(|chosen| choice.0 < chosen.0) {
                chosen = Some(choice);
            }
        }
        let Some((_, at, bits)) = chosen else { return false };
        self.bits[at] |= 1 << bits.ilog2(); // a word that differs is not zero
        true
    }
}
