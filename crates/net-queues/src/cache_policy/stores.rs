//! How bytes are stored in a receiver's buffers.
use memory::{NonTemporal, SharedSlice};

/// Which stores copy a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyPolicy {
    /// Ordinary ones, through the caches.
    Temporal,
    /// Non-temporal stores, which go past the caches to memory.
    NonTemporal(NonTemporal),
}

impl CopyPolicy {
    /// Temporal unless there are others.
    pub fn of(non_temporal: Option<NonTemporal>) -> Self {
        non_temporal.map_or(CopyPolicy::Temporal, CopyPolicy::NonTemporal)
    }
}

/// A [`CopyPolicy`] as a type: a loop over frames is compiled for each.
pub trait Stores: Copy {
    /// As [`SharedSlice::copy_to`].
    fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize;

    /// As [`SharedSlice::write_array`], of an array that fits.
    fn write<const N: usize>(self, from: &[u8; N], to: SharedSlice<'_>, offset: usize);

    /// Called behind the last of some frames, before their receiver is told of them.
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
