//! A slice's first lines, ahead of their use.

use crate::lines::{LINE_BYTES, prefetch, prefetch_write};
use crate::{Access, SharedSlice};

/// The net header in front of a frame (VIRTIO 1.3 §5.1.6): what is behind it is written.
const HEADER_BYTES: usize = 12;

impl SharedSlice<'_> {
    /// Fetches the first lines ahead of their use: to be read they may stay with the peer's core too, to be
    /// written they must leave it.
    ///
    /// The very first is fetched to be read in any case. It may hold nothing but a header in front of aligned
    /// data (DPDK's buffers lie so), and headers mostly stay as they are: such a line need not travel at all.
    #[inline(always)]
    pub fn prefetch(&self, access: Access) {
        let first = self.as_ptr().cast_const();
        prefetch(first);
        match access {
            Access::Read => prefetch(first.wrapping_add(LINE_BYTES)),
            Access::Write => {
                // One line or two, as the buffer lies: asking twice costs less than finding out.
                prefetch_write::<HEADER_BYTES>(first);
                prefetch_write::<{ HEADER_BYTES + LINE_BYTES - 1 }>(first);
            }
        }
    }
}
