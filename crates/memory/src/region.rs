//! One region of a guest's or a peer's memory, as a front-end announces it.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::{MapError, Mapping};

/// Why a region was refused.
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
    /// The file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// A mapped range with both names that peers use for it: guest-physical (descriptors) and front-end
/// virtual (ring addresses in vhost-user messages).
#[derive(Clone, Debug)]
pub struct Region {
    guest_base: u64,
    user_base: u64,
    mapping: Arc<Mapping>,
}

impl Region {
    /// Maps `size` bytes of `fd` from `offset` as the range at `guest_base` and `user_base`.
    pub fn map(
        fd: impl AsFd,
        offset: u64,
        size: u64,
        guest_base: u64,
        user_base: u64,
    ) -> Result<Self, RegionError> {
        for (kind, base) in [("guest", guest_base), ("user", user_base)] {
            if base.checked_add(size).is_none() {
                return Err(RegionError::Wraps { kind, base, size });
            }
        }
        let mapping = Arc::new(Mapping::shared(fd, offset, size)?);
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

    /// The mapping behind it.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}
