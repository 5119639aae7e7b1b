//! Batches of frames in memory of this process.
use memory::SgArena;
use virtio::net::HeaderLayout;

use super::images::ImagesId;
use super::{FrameBatch, Storage};
use crate::DropReason;
use crate::frame::{FrameMeta, HeaderSnapshot};

impl FrameBatch {
    /// As [`FrameBatch::of_memory`], for a traffic generator. Only the snapshots of its frames change, and frames
    /// of one length are equal behind the snapshot. A port that keeps frames in its own buffers then copies the
    /// bytes behind the snapshot once, not for each frame.
    pub fn of_images(max: usize) -> Self {
        FrameBatch { images: Some(ImagesId::new()), ..Self::of_memory(max) }
    }

    /// The identity of the images that the frames are made of.
    #[inline(always)]
    pub fn images(&self) -> Option<ImagesId> {
        self.images
    }

    /// The copied start of a frame, for senders that stamp their own frames before they pass them on.
    #[inline(always)]
    pub fn snapshot_mut(&mut self, index: usize) -> &mut HeaderSnapshot {
        &mut self.metas[..self.len][index].snapshot
    }

    /// The arena to put slices in before they are [pushed](FrameBatch::push); `None` unless made by
    /// [`FrameBatch::of_memory`].
    #[inline(always)]
    pub fn arena_mut(&mut self) -> Option<&mut SgArena> {
        match &mut self.storage {
            Storage::Own(arena) => Some(arena),
            Storage::Queue(_) => None,
        }
    }

    /// Makes a frame, with a net header in front, of the slices from `first` to the end of
    /// [`FrameBatch::arena_mut`].
    ///
    /// # Errors
    /// The batch was not made by [`FrameBatch::of_memory`]; the frame is shorter than an Ethernet header or longer
    /// than [`crate::LARGEST_FRAME_BYTES`]; or its net header is malformed ([`virtio::net::Offload::parse`]). The
    /// returned reason is the one to count the frame under.
    #[inline]
    pub fn push(&mut self, first: u32, layout: HeaderLayout) -> Result<(), DropReason> {
        let Storage::Own(arena) = &self.storage else { return Err(DropReason::NotConnected) };
        self.push_slices((first, arena.len()), layout)
    }

    /// Makes a frame, with a net header in front, of each slice from `first` on. Calls `refused` with the reason
    /// for each slice that holds no valid frame.
    #[inline]
    pub fn push_each(&mut self, first: u32, layout: HeaderLayout, mut refused: impl FnMut(DropReason)) {
        let Storage::Own(arena) = &self.storage else { return };
        for at in first..arena.len() {
            if let Err(reason) = self.push_slices((at, at + 1), layout) {
                refused(reason);
            }
        }
    }

    /// As [`FrameBatch::push_each`], until the batch is [full](FrameBatch::is_full). Returns the index of the first
    /// slice that was not read.
    #[inline]
    pub fn push_each_with_room(
        &mut self,
        first: u32,
        layout: HeaderLayout,
        mut refused: impl FnMut(DropReason),
    ) -> u32 {
        let Storage::Own(arena) = &self.storage else { return first };
        let end = arena.len();
        for at in first..end {
            if self.is_full() {
                return at;
            }
            if let Err(reason) = self.push_slices((at, at + 1), layout) {
                refused(reason);
            }
        }
        end
    }

    /// As [`FrameBatch::push_each`], for complete frames without a net header.
    #[inline]
    pub fn push_each_complete(&mut self, first: u32, mut refused: impl FnMut(DropReason)) {
        let Storage::Own(arena) = &self.storage else { return };
        for at in first..arena.len() {
            let meta = next(&mut self.metas, self.len);
            match arena.slices(at..at + 1) {
                [whole] => match meta.parse_complete(*whole) {
                    Ok(()) => {
                        (meta.first, meta.end) = (at, at + 1);
                        self.len += 1;
                    }
                    Err(reason) => refused(reason),
                },
                _ => refused(DropReason::TooShort),
            }
        }
    }

    #[inline(always)]
    fn push_slices(&mut self, (first, end): (u32, u32), layout: HeaderLayout) -> Result<(), DropReason> {
        let Storage::Own(arena) = &self.storage else { return Err(DropReason::NotConnected) };
        let slices = arena.slices(first..end);
        let meta = next(&mut self.metas, self.len);
        let simple = matches!(slices, [whole] if meta.parse_fast(*whole, layout));
        if !simple {
            let bytes: u32 = slices.iter().map(|slice| slice.len_bytes() as u32).sum();
            meta.parse_header(slices, bytes, layout)?;
            self.work = self.work.saturating_add(meta.len + meta.extra_work());
        }
        (meta.first, meta.end) = (first, end);
        self.len += 1;
        Ok(())
    }
}

/// The place behind the last frame of the batch. The place is added if the batch was never that long before.
#[inline(always)]
fn next(metas: &mut Vec<FrameMeta>, len: usize) -> &mut FrameMeta {
    if len == metas.len() {
        metas.push(FrameMeta::EMPTY);
    }
    &mut metas[len]
}
