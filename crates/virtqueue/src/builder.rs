//! Builds chains of several descriptors, for the walks of both layouts.

use memory::{Access, SgBuilder};

use crate::chain::Chain;
use crate::error::{Malformed, Place, PopError};
use crate::work::{MAX_CHAIN, MAX_PIECES};
use crate::{FeatureSet, tuning};

/// Adds up a chain's descriptors and checks the rules that all layouts share.
pub(crate) struct ChainBuilder {
    first: u32,
    first_writable: Option<u32>,
    readable_bytes: u32,
    writable_bytes: u32,
}

impl ChainBuilder {
    #[inline(always)]
    pub fn new(builder: &SgBuilder<'_>) -> Self {
        ChainBuilder { first: builder.len(), first_writable: None, readable_bytes: 0, writable_bytes: 0 }
    }

    /// Appends one descriptor to the chain; `len` is in bytes.
    ///
    /// # Errors
    /// The descriptor is readable but follows a writable one, the lengths of its direction reach 4 GiB, its buffer
    /// is outside the shared memory or in too many regions, or the IOTLB has no translation.
    #[inline(always)]
    pub fn add(
        &mut self,
        builder: &mut SgBuilder<'_>,
        address: u64,
        len: u32,
        writable: bool,
        place: Place,
    ) -> Result<(), PopError> {
        let (access, bytes) = if writable {
            if self.first_writable.is_none() {
                self.first_writable = Some(builder.len());
            }
            (Access::Write, &mut self.writable_bytes)
        } else {
            if self.first_writable.is_some() {
                return Err(PopError::malformed(Malformed::ReadableAfterWritable, place, address));
            }
            (Access::Read, &mut self.readable_bytes)
        };
        let total = bytes.checked_add(len);
        *bytes = total.ok_or_else(|| PopError::malformed(Malformed::LengthOverflow, place, len.into()))?;
        let pushed = builder.push_up_to(self.first + MAX_PIECES, address, len, access);
        pushed.map_err(|fault| PopError::fault(fault, place))?;
        if tuning::PREFETCH
            && let Some(buffer) = builder.last()
        {
            buffer.prefetch(access);
        }
        Ok(())
    }

    #[inline(always)]
    pub fn finish(self, builder: &SgBuilder<'_>, id: u16, slots: u16, popped_at: u16) -> Chain {
        let first_writable = self.first_writable.unwrap_or(builder.len());
        Chain {
            first: self.first,
            id,
            popped_at,
            readable_pieces: first_writable - self.first,
            writable_pieces: builder.len() - first_writable,
            readable_bytes: self.readable_bytes,
            written: 0,
            writable_bytes: self.writable_bytes,
            slots,
            done: false,
        }
    }
}

/// Checks that an indirect descriptor was negotiated and is the last of its chain (§2.7.5.3.1, §2.8.7).
pub(crate) fn check_indirect<F: FeatureSet>(
    has_next: bool,
    flags: u16,
    place: Place,
) -> Result<(), PopError> {
    let rule = match (F::INDIRECT, has_next) {
        (true, false) => return Ok(()),
        (false, _) => Malformed::IndirectNotNegotiated,
        (true, true) => Malformed::IndirectWithNext,
    };
    Err(PopError::malformed(rule, place, flags.into()))
}

/// The number of descriptors in an indirect table of `bytes` bytes.
pub(crate) fn table_entries(bytes: u32, place: Place) -> Result<u32, PopError> {
    let entries = bytes / 16;
    if !bytes.is_multiple_of(16) || entries == 0 || entries > u32::from(MAX_CHAIN) {
        return Err(PopError::malformed(Malformed::IndirectTableSize, place, bytes.into()));
    }
    Ok(entries)
}
