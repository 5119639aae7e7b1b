//! One region of a guest's or a peer's memory, as a front-end announces it.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::{MapError, Mapping, PeerMemory};

/// Addresses and sizes of a peer's regions are multiples of this: a page of every guest.
const GRANULE_BYTES: u64 = 4096;

/// Why a region was rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The range passes the end of the address space.
    #[error(
        "region of {size:#x} bytes at {kind} address {base:#x} wraps around; fix the address or the size"
    )]
    Wraps {
        /// `guest` or `user`.
        kind: &'static str,
        /// First address.
        base: u64,
        /// Bytes.
        size: u64,
    },
    /// A value is not a multiple of the page size.
    #[error(
        "{what} {value:#x} of a region is no multiple of {GRANULE_BYTES}; share whole pages, from a page's beginning"
    )]
    Unaligned {
        /// Which number.
        what: &'static str,
        /// The given value.
        value: u64,
    },
    /// The file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// A mapped range with both addresses that peers use for it: guest-physical (descriptors) and front-end virtual (ring
/// addresses in vhost-user messages).
#[derive(Clone, Debug)]
pub struct Region {
    guest_base: u64,
    user_base: u64,
    mapping: Arc<Mapping>,
}

/// The part of a file that a region consists of, and its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionRange {
    /// The offset in the file at which the region begins.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// First guest-physical address.
    pub guest_base: u64,
    /// First front-end virtual address.
    pub user_base: u64,
}

impl RegionRange {
    /// The first `size` bytes of a file, with one address for both uses.
    pub fn at(base: u64, size: u64) -> Self {
        RegionRange { offset: 0, size, guest_base: base, user_base: base }
    }
}

impl Region {
    /// Maps a range of a file of this process.
    ///
    /// # Errors
    /// The range passes the end of either address space, or the file cannot be mapped ([`Mapping::shared`]).
    pub fn map(fd: impl AsFd, range: RegionRange) -> Result<Self, RegionError> {
        let RegionRange { offset, size, guest_base, user_base } = range;
        check_wraps(size, guest_base, user_base)?;
        let mapping = Arc::new(Mapping::shared(fd, offset, size)?);
        Ok(Region { guest_base, user_base, mapping })
    }

    /// Maps a range of a peer's file, in whole pages. A buffer is split wherever it crosses a region. Regions of
    /// single bytes would therefore turn one descriptor into thousands of pieces.
    ///
    /// # Errors
    /// The range passes the end of either address space; the guest address, the size or the offset in the file is
    /// no multiple of 4096; or the file cannot be mapped ([`PeerMemory::map`]).
    pub fn of_peer(peer: &Arc<PeerMemory>, fd: impl AsFd, range: RegionRange) -> Result<Self, RegionError> {
        let RegionRange { offset, size, guest_base, user_base } = range;
        check_wraps(size, guest_base, user_base)?;
        for (what, value) in [("guest address", guest_base), ("size", size), ("file offset", offset)] {
            if !value.is_multiple_of(GRANULE_BYTES) {
                return Err(RegionError::Unaligned { what, value });
            }
        }
        let mapping = Arc::new(peer.map(fd, offset, size)?);
        Ok(Region { guest_base, user_base, mapping })
    }

    /// Maps a range that a driver of this kernel offers.
    ///
    /// # Errors
    /// The range passes the end of the address space, or it cannot be mapped ([`PeerMemory::map_device`]).
    pub fn of_device(peer: &Arc<PeerMemory>, fd: impl AsFd, range: RegionRange) -> Result<Self, RegionError> {
        let RegionRange { offset, size, guest_base, user_base } = range;
        check_wraps(size, guest_base, user_base)?;
        let mapping = Arc::new(peer.map_device(fd, offset, size)?);
        Ok(Region { guest_base, user_base, mapping })
    }

    /// First guest-physical address.
    pub fn guest_base(&self) -> u64 {
        self.guest_base
    }

    /// First front-end virtual address.
    pub fn user_base(&self) -> u64 {
        self.user_base
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.mapping.len_bytes()
    }

    /// The mapping of the region.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

fn check_wraps(size: u64, guest_base: u64, user_base: u64) -> Result<(), RegionError> {
    for (kind, base) in [("guest", guest_base), ("user", user_base)] {
        if base.checked_add(size).is_none() {
            return Err(RegionError::Wraps { kind, base, size });
        }
    }
    Ok(())
}
