//! One look-up under one mask, and what was found.
use super::departure::Departure;
use super::masks::Word;

/// What became of a plain frame that was looked up.
#[derive(Debug)]
pub enum LookUp<'c> {
    /// The frame is counted, and leaves so.
    Departs(&'c Departure),
    /// The frame has to be read into fields.
    Other(Looked),
}

/// What was found for a plain frame.
#[derive(Debug)]
pub struct Looked(pub(super) Option<Found>);

impl Looked {
    /// Nothing.
    pub const NOTHING: Looked = Looked(None);
}

/// A look-up under one mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub hash: u64,
    /// The number of words.
    pub words: usize,
}

/// Prepares the look-up of a frame's words under a mask with this number.
#[inline(always)]
pub(super) fn probe<const WORDS: usize, const MAX: usize>(
    (id, mask): (u64, &[Word]),
    seed: u64,
    of: &[u64; WORDS],
    words: &mut [u64; MAX],
) -> Probe {
    words[0] = id;
    let mut hash = seed ^ id;
    for (word, to) in mask.iter().zip(&mut words[1..]) {
        *to = of.get(usize::from(word.at)).copied().unwrap_or(0) & word.mask; // below `WORDS`
        let product = u128::from(hash.rotate_left(5) ^ *to) * 0x9e37_79b9_7f4a_7c15;
        hash = (product as u64) ^ (product >> 64) as u64;
    }
    Probe { hash, words: 1 + mask.len() }
}

/// The place that has the outcome of a look-up, and the mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub at: usize,
    pub masks: usize,
    pub mask: usize,
}
