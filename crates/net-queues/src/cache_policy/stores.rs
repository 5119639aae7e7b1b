//! How bytes are stored in a receiver's buffers.
use memory::{NonTemporal, SharedSlice};

/// The kind of stores that copy a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyPolicy {
    /// Ordinary stores, through the caches.
    Temporal,
    /// Non-temporal stores, which go past the caches to memory.
    NonTemporal(NonTemporal),
}

impl CopyPolicy {
    /// Non-temporal stores if the processor has them, else temporal ones.
    pub fn of(non_temporal: Option<NonTemporal>) -> Self {
        non_temporal.map_or(CopyPolicy::Temporal, CopyPolicy::NonTemporal)
    }
}

/// A [`CopyPolicy`] as a type: a loop over frames is compiled for each.
pub trait Stores: Copy {
    /// Copies as [`SharedSlice::copy_to`] does.
    fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize;

    /// Writes as [`SharedSlice::write_array`] does. The array must fit.
    fn write<const N: usize>(self, from: &[u8; N], to: SharedSlice<'_>, offset: usize);

    /// Must be called after the last of some frames, before their receiver is notified.
    fn finish(self);
}

/// Stores through the caches.
#[derive(Clone, Copy, Debug)]
pub struct Temporal;

impl Stores for Temporal {
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

impl Stores for NonTemporal {
    #[inline(always)]
    fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize {
        NonTemporal::copy(self, from, to)
    }

    #[inline(always)]
    fn write<const N: usize>(self, from: &[u8; N], to: SharedSlice<'_>, offset: usize) {
        NonTemporal::write(self, from, to.slice(offset, N));
    }

    #[inline(always)]
    fn finish(self) {
        NonTemporal::finish(self);
    }
}
