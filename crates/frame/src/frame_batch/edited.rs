//! Frames of a burst with other heads: a batch that sinks take like any other.
use std::io;

use memory::{SgArena, SgList};

use super::{FrameBatch, Storage};
use crate::frame::{ETHERNET_HEADER_BYTES, FrameMeta, LARGEST_FRAME_BYTES, SNAPSHOT_BYTES};
use crate::{DropReason, HeadEdit, OwnMemory, WINDOW_BYTES};

/// Room for an edited head: a window and what is put into it.
const HEAD_BYTES: usize = WINDOW_BYTES + HeadEdit::MAX_INSERTED_BYTES;

/// Behind Ethernet, IPv4 and UDP: no payload that is cut into segments begins before it.
const LEAST_PAYLOAD_AT: usize = ETHERNET_HEADER_BYTES + 20 + 8;

/// Frames of one burst, edited. A frame has the index that it has in the burst. Its head lies in memory of this process,
/// the rest where the sender put it: a sink copies both once, as it does with frames that were not edited.
#[derive(Debug)]
pub struct EditedFrames {
    batch: FrameBatch,
    heads: OwnMemory,
    /// All of `heads`, in one slice.
    whole: SgArena,
}

impl EditedFrames {
    /// For bursts of this many frames.
    ///
    /// # Errors
    /// The memory file of the heads cannot be made or mapped.
    pub fn new(frames: usize) -> io::Result<Self> {
        let bytes = frames.max(1) * HEAD_BYTES;
        let heads = OwnMemory::new(c"tautline-heads", bytes as u64)?;
        let mut whole = SgArena::with_capacity(1);
        heads.sg_builder().push(&mut whole, 0, u32::try_from(bytes).map_err(io::Error::other)?);
        Ok(EditedFrames { batch: FrameBatch::of_memory(frames), heads, whole })
    }

    /// The frames: those that were edited, by their index in the burst. The others between them are empty.
    #[inline(always)]
    pub fn batch(&self) -> &FrameBatch {
        &self.batch
    }

    /// Adds the frame at `index` of a burst, edited. Frames are added in ascending order. `window` is what is known of its
    /// start: at least its snapshot.
    ///
    /// # Errors
    /// The frame ends before the edit's end, or would be shorter than an Ethernet header, or the window ends before it
    /// ([`DropReason::TooShort`]); it would be longer than [`LARGEST_FRAME_BYTES`], or more than
    /// [`HeadEdit::MAX_INSERTED_BYTES`] are put into it ([`DropReason::TooLong`]); or what its sender left to be done cannot
    /// be done behind the edit ([`DropReason::OffloadImpossible`]).
    pub fn push(
        &mut self,
        burst: &FrameBatch,
        index: usize,
        window: &[u8],
        edit: &HeadEdit<'_>,
    ) -> Result<(), DropReason> {
        let meta = &burst.metas[..burst.len][index];
        let (inserted, removed) = (edit.inserted.len(), edit.removed);
        let kept =
            edit.at.checked_add(removed).and_then(|end| Some((window.get(..edit.at)?, window.get(end..)?)));
        let Some((before, behind)) = kept else { return Err(DropReason::TooShort) };
        let len = edit.edited_bytes(meta.len as usize);
        if len < ETHERNET_HEADER_BYTES {
            return Err(DropReason::TooShort);
        }
        if len > LARGEST_FRAME_BYTES || inserted > HeadEdit::MAX_INSERTED_BYTES || window.len() > WINDOW_BYTES
        {
            return Err(DropReason::TooLong);
        }
        let offload = meta.offload.edited(edit.at, removed, inserted, len);
        let offload = offload.ok_or(DropReason::OffloadImpossible)?;

        // What is known goes into our memory, so that what was looked at is what is delivered.
        let start = index * HEAD_BYTES;
        let head = self.heads.slice(start, HEAD_BYTES);
        head.slice(0, before.len()).write(before);
        head.slice(before.len(), inserted).write(edit.inserted);
        head.slice(before.len() + inserted, behind.len()).write(behind);
        let mut known = before.len() + inserted + behind.len();
        let mut taken = window.len();
        let slices = burst.arena().slices(meta.first..meta.end);
        let skip = meta.skip as usize;
        if known < SNAPSHOT_BYTES && len > known {
            let more = (SNAPSHOT_BYTES - known).min(len - known);
            let into = head.slice(known, more);
            SgList::new(slices).skip(skip + taken).copy_to(SgList::new(&[into]), more);
            (known, taken) = (known + more, taken + more);
        }
        let mut snapshot = [0; SNAPSHOT_BYTES];
        head.read_array(0, &mut snapshot);

        let arena = burst.arena();
        let (Storage::Own(edited), true) = (&mut self.batch.storage, index < self.batch.metas.len()) else {
            return Err(DropReason::TooShort);
        };
        let first = edited.len();
        let lies_as_before =
            known <= SNAPSHOT_BYTES && inserted <= removed && before.len() + inserted <= LEAST_PAYLOAD_AT;
        let skip = if lies_as_before {
            edited.append(arena, meta.first..meta.end, 0, usize::MAX);
            skip + removed - inserted
        } else {
            edited.append(&self.whole, 0..1, start, known);
            edited.append(arena, meta.first..meta.end, skip + taken, usize::MAX);
            0
        };
        let meta = FrameMeta {
            snapshot,
            offload,
            first,
            end: edited.len(),
            skip: skip as u32,
            len: len as u32,
            simple: offload == virtio::net::Offload::NONE,
        };
        // Those between have no slices: what they had before is gone from the arena.
        if self.batch.len == 0 {
            self.batch.log.clone_from(&burst.log);
        }
        if let Some(between) = self.batch.metas.get_mut(self.batch.len..index) {
            between.fill(FrameMeta::EMPTY);
        }
        self.batch.metas[index] = meta;
        self.batch.len = index + 1;
        Ok(())
    }

    /// Forgets all frames, and holds neither their senders' memory nor their log.
    pub fn clear(&mut self) {
        if let Storage::Own(arena) = &mut self.batch.storage {
            arena.clear();
            arena.release();
        }
        (self.batch.len, self.batch.log) = (0, None);
    }
}

#[cfg(test)]
mod tests;
