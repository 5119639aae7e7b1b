//! The chains of loads that an array holds; see [`super::latency`].

use super::sizes::LINE_WORDS;

/// The chain in each slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots(pub [Chain; LINE_WORDS]);

/// A chain in a slot: the array's size (0 if the slot has no chain), and the place of the next load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    pub bytes: usize,
    pub at: u32,
}
