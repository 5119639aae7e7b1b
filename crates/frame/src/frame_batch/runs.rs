//! Runs of frames with the same addresses.
use super::FrameBatch;
use crate::frame::FrameMeta;

impl FrameBatch {
    /// How many frames from index `index` on have the same source and destination address. Most batches are one
    /// such run.
    #[inline(always)] // programs call it for each run, which may be one frame
    pub fn same_address_run(&self, index: usize) -> usize {
        let addresses = |meta: &FrameMeta| meta.snapshot.first_chunk::<{ 2 * 6 }>().copied();
        let metas = &self.metas[..self.len][index..];
        let first = metas.first().and_then(addresses);
        metas.iter().take_while(|meta| addresses(meta) == first).count()
    }
}
