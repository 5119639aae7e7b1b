//! The chains of a burst.

use std::ops::{Deref, DerefMut};

use crate::chain::Chain;

/// The chains of a burst. All slots exist from the beginning and are overwritten, so that a loop that fills them
/// needs no check for room.
#[derive(Debug)]
pub(crate) struct Chains {
    slots: Box<[Chain]>,
    len: usize,
}

impl Chains {
    pub fn new(limit: usize) -> Self {
        Chains { slots: vec![Chain::default(); limit].into(), len: 0 }
    }

    /// The most chains that fit.
    pub fn limit(&self) -> usize {
        self.slots.len()
    }

    /// The slots behind the last chain, to be written before they are [added](Chains::add).
    #[inline(always)]
    pub fn spare(&mut self) -> &mut [Chain] {
        &mut self.slots[self.len..]
    }

    /// Makes the first `count` spare slots chains.
    #[inline(always)]
    pub fn add(&mut self, count: usize) {
        debug_assert!(count <= self.slots.len() - self.len);
        self.len = self.slots.len().min(self.len + count);
    }

    /// Adds a chain. There must be room for it.
    #[inline(always)]
    pub fn push(&mut self, chain: Chain) {
        self.spare()[0] = chain;
        self.len += 1;
    }

    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for Chains {
    type Target = [Chain];

    #[inline(always)]
    fn deref(&self) -> &[Chain] {
        &self.slots[..self.len]
    }
}

impl DerefMut for Chains {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Chain] {
        &mut self.slots[..self.len]
    }
}
