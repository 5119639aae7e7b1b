//! The words of an in-flight region, in the layout of the vhost-user specification.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use memory::{AtomicData, AtomicSlice, BindError, Mapping};

use crate::QueueSize;

/// The only existing version. 0 marks a region that has not been used yet.
pub(super) const VERSION: u16 = 1;

/// Why an in-flight region cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InFlightError {
    /// The region does not fit at the given offset.
    #[error("in-flight region: {0}")]
    Bind(#[from] BindError),
    /// A program with another version wrote the region, or it was overwritten.
    #[error(
        "in-flight region has version {version} for {descriptors} descriptors; expected 1 for {expected}"
    )]
    Header {
        /// Version found.
        version: u16,
        /// Descriptors found.
        descriptors: u16,
        /// The queue's size.
        expected: u16,
    },
    /// A list in the region points outside of it or does not end.
    #[error("in-flight region entry {entry}: {field} is {value}, which cannot be")]
    Entry {
        /// Index of the entry.
        entry: u16,
        /// Which field.
        field: &'static str,
        /// The value of the entry.
        value: u64,
    },
}

#[repr(C, align(8))]
pub(super) struct SplitHeader {
    pub features: AtomicU64,
    pub version: AtomicU16,
    pub descriptors: AtomicU16,
    pub last_batch_head: AtomicU16,
    pub used_index: AtomicU16,
}

#[repr(C, align(8))]
pub(super) struct SplitState {
    pub in_flight: AtomicU8,
    _padding: [AtomicU8; 5],
    pub next: AtomicU16,
    pub counter: AtomicU64,
}

#[repr(C, align(8))]
pub(super) struct PackedHeader {
    pub features: AtomicU64,
    pub version: AtomicU16,
    pub descriptors: AtomicU16,
    pub free_head: AtomicU16,
    pub old_free_head: AtomicU16,
    pub used_index: AtomicU16,
    pub old_used_index: AtomicU16,
    pub used_wrap: AtomicU8,
    pub old_used_wrap: AtomicU8,
    _padding: [AtomicU8; 10],
}

#[repr(C, align(8))]
pub(super) struct PackedState {
    pub in_flight: AtomicU8,
    _padding: AtomicU8,
    pub next: AtomicU16,
    pub last: AtomicU16,
    pub count: AtomicU16,
    pub counter: AtomicU64,
    pub id: AtomicU16,
    pub flags: AtomicU16,
    pub len: AtomicU32,
    pub address: AtomicU64,
}

const _: () = assert!(size_of::<SplitHeader>() == 16 && size_of::<SplitState>() == 16);
const _: () = assert!(size_of::<PackedHeader>() == 32 && size_of::<PackedState>() == 32);

// SAFETY: atomics only; the sizes above leave no room for padding.
unsafe impl AtomicData for SplitHeader {}
// SAFETY: as above.
unsafe impl AtomicData for SplitState {}
// SAFETY: as above.
unsafe impl AtomicData for PackedHeader {}
// SAFETY: as above.
unsafe impl AtomicData for PackedState {}

/// Rejects a region that another version or another queue has written.
pub(super) fn check_header(version: u16, descriptors: u16, size: QueueSize) -> Result<(), InFlightError> {
    if version != VERSION || descriptors != size.get() {
        return Err(InFlightError::Header { version, descriptors, expected: size.get() });
    }
    Ok(())
}

/// Header and states of one queue at `offset` bytes into the mapping.
pub(super) fn bind<H: AtomicData, S: AtomicData>(
    mapping: &Arc<Mapping>,
    offset: u64,
    size: QueueSize,
) -> Result<(AtomicSlice<H>, AtomicSlice<S>), BindError> {
    let states = offset.saturating_add(size_of::<H>() as u64);
    Ok((
        AtomicSlice::new(mapping, offset, 1, offset)?,
        AtomicSlice::new(mapping, states, size.get().into(), states)?,
    ))
}
