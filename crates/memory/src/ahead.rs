//! Prefetching of a slice's first lines.

use crate::lines::{LINE_BYTES, prefetch, prefetch_write};
use crate::{Access, SharedSlice};

/// The net header in front of a frame (VIRTIO 1.3 §5.1.6): the bytes behind it are written.
const HEADER_BYTES: usize = 12;

impl SharedSlice<'_> {
    /// Prefetches the first lines. For reading, lines may stay in the peer's cache too. For writing, the lines must
    /// leave that cache.
    ///
    /// The very first line is fetched for reading in both cases. It may hold only a header in front of aligned data,
    /// as DPDK's buffers do. Headers rarely change, and then the line need not be transferred at all.
    #[inline(always)]
    pub fn prefetch(&self, access: Access) {
        let first = self.as_ptr().cast_const();
        prefetch(first);
        match access {
            Access::Read => prefetch(first.wrapping_add(LINE_BYTES)),
            Access::Write => {
                // The header may be in one line or two: prefetching a line twice costs less than a check.
                prefetch_write::<HEADER_BYTES>(first);
                prefetch_write::<{ HEADER_BYTES + LINE_BYTES - 1 }>(first);
            }
        }
    }
}
