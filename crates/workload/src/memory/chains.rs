//! Which chains of loads an array holds; see [`super::latency`].

use super::sizes::LINE_WORDS;

/// What the slots hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots(pub [Chain; LINE_WORDS]);

/// A chain in a slot: the array's size, 0 where there is none, and where the next load goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    pub bytes: usize,
    pub at: u32,
}
