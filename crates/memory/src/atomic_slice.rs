//! Arrays of atomics in shared memory: what rings and logs are made of.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use crate::Mapping;

/// A type that may be referenced in memory that a peer writes.
///
/// # Safety
/// The type must consist of atomics only, without padding, so that it may change under a shared reference
/// and every bit pattern is valid.
pub unsafe trait AtomicData: Send + Sync + 'static {}

// SAFETY: an atomic integer may change under a shared reference and has no invalid value.
unsafe impl AtomicData for AtomicU8 {}
// SAFETY: as above.
unsafe impl AtomicData for AtomicU16 {}
// SAFETY: as above.
unsafe impl AtomicData for AtomicU32 {}
// SAFETY: as above.
unsafe impl AtomicData for AtomicU64 {}

/// Why a table of atomics cannot be at the given address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The address is not in any region, or the table reaches out of the region.
    #[error("{bytes} bytes at {address:#x} are not inside one mapped region; share the memory first")]
    Outside {
        /// The given address.
        address: u64,
        /// Size of the table.
        bytes: u64,
    },
    /// The address is not aligned as VIRTIO 1.3 §2.7 and §2.8 require.
    #[error("address {address:#x} is not a multiple of {align} as its contents require")]
    Misaligned {
        /// The given address.
        address: u64,
        /// The required alignment in bytes.
        align: u64,
    },
}

/// An array of atomics in a mapping, which it keeps alive.
#[derive(Debug)]
pub struct AtomicSlice<T> {
    start: NonNull<T>,
    len: usize,
    mapping: Arc<Mapping>,
    cell: PhantomData<T>,
}

impl<T> Clone for AtomicSlice<T> {
    fn clone(&self) -> Self {
        AtomicSlice { mapping: Arc::clone(&self.mapping), ..*self }
    }
}

// SAFETY: a reference to atomics plus an `Arc`; both may move between and be shared by threads.
unsafe impl<T: AtomicData> Send for AtomicSlice<T> {}
// SAFETY: as above.
unsafe impl<T: AtomicData> Sync for AtomicSlice<T> {}

impl<T: AtomicData> AtomicSlice<T> {
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The `count` atomics that begin `offset` bytes into the mapping. `address` is used only in errors.
    ///
    /// # Errors
    /// `offset` and the `count` atomics do not lie inside the mapping, or the first one is not aligned to `T`.
    pub fn new(mapping: &Arc<Mapping>, offset: u64, count: usize, address: u64) -> Result<Self, BindError> {
        let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
        let start = mapping.at(offset, bytes).ok_or(BindError::Outside { address, bytes })?.cast::<T>();
        if !start.is_aligned() {
            return Err(BindError::Misaligned { address, align: align_of::<T>() as u64 });
        }
        Ok(AtomicSlice { start, len: count, mapping: Arc::clone(mapping), cell: PhantomData })
    }
}

impl<T: AtomicData> Deref for AtomicSlice<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` checked bounds and alignment, the `Arc` keeps the memory mapped, and `T: AtomicData`
        // promises that a shared reference to changing memory is sound.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}
