//! Frames of a burst with other heads, as a batch that sinks take like any other.
use std::ops::Range;
use std::{io, ptr};

use memory::{SgArena, SgList, SharedSlice};
use virtio::net::Offload;

use super::{FrameBatch, Storage};
use crate::frame::{
    ETHERNET_HEADER_BYTES, FAST_FRAME_BYTES, FrameMeta, HeaderSnapshot, LARGEST_FRAME_BYTES, SNAPSHOT_BYTES,
    VLAN_TAG_BYTES,
};
use crate::{DropReason, HeadEdit, Metadata, OwnMemory, WINDOW_BYTES};

/// The room for an edited head: a window and the inserted bytes.
const HEAD_BYTES: usize = WINDOW_BYTES + HeadEdit::MAX_INSERTED_BYTES;

/// Behind Ethernet, IPv4 and UDP: no payload that is cut into segments begins before it.
const LEAST_PAYLOAD_AT: usize = ETHERNET_HEADER_BYTES + 20 + 8;

/// Where a VLAN tag is: behind the addresses (IEEE 802.1Q §9.3).
const TAG_AT: usize = 12;
const TAG_END: usize = TAG_AT + VLAN_TAG_BYTES;

/// Frames of one burst, edited. A frame has the index that it has in the burst. Its head lies in memory of this process,
/// the rest where the sender put it: a sink copies both once, as it does with frames that were not edited.
#[derive(Debug)]
pub struct EditedFrames {
    batch: FrameBatch,
    heads: OwnMemory,
    /// All heads in one slice.
    whole: SgArena,
}

/// Writes the parts of a head: as many bytes as fit into the snapshot, and the rest behind its length into `head`. Returns the
/// length of all parts.
#[inline(always)]
fn write_head(parts: &[&[u8]], snapshot: &mut HeaderSnapshot, head: SharedSlice<'_>) -> usize {
    let mut known = 0;
    for part in parts {
        let (first, rest) = part.split_at(part.len().min(SNAPSHOT_BYTES.saturating_sub(known)));
        if !first.is_empty() {
            snapshot[known..known + first.len()].copy_from_slice(first);
        }
        if !rest.is_empty() {
            head.slice(known + first.len(), rest.len()).write(rest);
        }
        known += part.len();
    }
    known
}

impl EditedFrames {
    /// Edited frames for bursts of this many frames.
    ///
    /// # Errors
    /// The memory file of the heads cannot be made or mapped.
    pub fn new(frames: usize) -> io::Result<Self> {
        let bytes = frames.max(1) * HEAD_BYTES;
        let heads = OwnMemory::new(c"tautline-heads", bytes as u64)?;
        let mut whole = SgArena::with_capacity(1);
        heads.sg_builder().push(&mut whole, 0, u32::try_from(bytes).map_err(io::Error::other)?);
        let mut batch = FrameBatch::of_memory(frames);
        batch.reserve_metadata(frames);
        Ok(EditedFrames { batch, heads, whole })
    }

    /// The edited frames, by their index in the burst. The entries of all other frames are empty.
    #[inline(always)]
    pub fn batch(&self) -> &FrameBatch {
        &self.batch
    }

    /// Adds the frame at `index` of a burst, edited. Frames are added in ascending order. `window` is the known
    /// start of the frame, at least its snapshot.
    ///
    /// # Errors
    /// The frame or the window ends before the edit's end, or the result would be shorter than an Ethernet header
    /// ([`DropReason::TooShort`]). Or the result would be longer than [`LARGEST_FRAME_BYTES`], or more than
    /// [`HeadEdit::MAX_INSERTED_BYTES`] are inserted ([`DropReason::TooLong`]). Or the sender's offload cannot be
    /// done after the edit ([`DropReason::OffloadImpossible`]).
    pub fn push(
        &mut self,
        burst: &FrameBatch,
        index: usize,
        window: &[u8],
        edit: &HeadEdit<'_>,
    ) -> Result<(), DropReason> {
        if !self.push_tag(burst, index, window, edit) {
            self.push_any(burst, index, window, edit, None)?;
        }
        self.pushed(burst, index);
        Ok(())
    }

    /// As [`EditedFrames::push`], with another offload: that of the edited frame, in which it has a place.
    ///
    /// # Errors
    /// As [`EditedFrames::push`].
    pub fn push_with(
        &mut self,
        burst: &FrameBatch,
        index: usize,
        window: &[u8],
        edit: &HeadEdit<'_>,
        offload: Offload,
    ) -> Result<(), DropReason> {
        self.push_any(burst, index, window, edit, Some(offload))?;
        self.pushed(burst, index);
        Ok(())
    }

    /// Adds a frame behind those that are there: this head, in two parts, and the bytes `payload` of the frame at `index` of a
    /// burst. Bytes of the payload are neither read nor copied. `offload` is that of the new frame, in which it has a place.
    ///
    /// # Errors
    /// The head is shorter than [`SNAPSHOT_BYTES`], or the burst's frame ends before the payload's end
    /// ([`DropReason::TooShort`]). Or the head is longer than two windows, or the frame longer than
    /// [`LARGEST_FRAME_BYTES`] ([`DropReason::TooLong`]). Or there are as many frames as there is room for
    /// ([`DropReason::ReceiverFull`]).
    pub fn push_part(
        &mut self,
        burst: &FrameBatch,
        index: usize,
        head: [&[u8]; 2],
        payload: Range<usize>,
        offload: Offload,
    ) -> Result<(), DropReason> {
        let meta = &burst.metas[..burst.len][index];
        let known = head[0].len() + head[1].len();
        let len = known + payload.len();
        if known < SNAPSHOT_BYTES || payload.end > meta.len as usize {
            return Err(DropReason::TooShort);
        }
        if known > HEAD_BYTES || len > LARGEST_FRAME_BYTES {
            return Err(DropReason::TooLong);
        }
        let at = self.batch.len;
        let (Storage::Own(edited), Some(to)) = (&mut self.batch.storage, self.batch.metas.get_mut(at)) else {
            return Err(DropReason::ReceiverFull);
        };
        let start = at * HEAD_BYTES;
        let place = self.heads.slice(start, HEAD_BYTES);
        write_head(&head, &mut to.snapshot, place);
        place.write_array(0, &to.snapshot);
        (to.first, to.skip, to.len) = (edited.len(), 0, len as u32);
        (to.simple, to.offload) = (offload == Offload::NONE, offload);
        edited.append(&self.whole, 0..1, start, known);
        let from = meta.skip as usize + payload.start;
        edited.append(burst.arena(), meta.first..meta.end, from, payload.len());
        to.end = edited.len();
        self.pushed(burst, at);
        Ok(())
    }

    /// Cuts an edited frame to this many bytes, at least an Ethernet header, so that padding is not delivered.
    pub fn cut(&mut self, index: usize, bytes: usize) {
        if let Some(meta) = self.batch.metas[..self.batch.len].get_mut(index) {
            meta.len = meta.len.min(bytes.max(ETHERNET_HEADER_BYTES) as u32); // the smaller one fits
        }
    }

    /// Gives an edited frame metadata.
    pub fn attach(&mut self, index: usize, metadata: &Metadata) {
        self.batch.set_metadata(index, metadata);
    }

    #[inline(always)]
    fn pushed(&mut self, burst: &FrameBatch, index: usize) {
        let batch = &mut self.batch;
        if batch.len == 0 {
            batch.log.clone_from(&burst.log);
        }
        if batch.len < index {
            // These frames have no slices: their former slices are no longer in the arena.
            batch.metas[batch.len..index].fill(FrameMeta::EMPTY);
        }
        batch.len = index + 1;
    }

    /// Pushes, pops or changes a VLAN tag of a frame in one piece with no offload left, of which only the snapshot is known:
    /// the length of each copy is a constant. Returns false for other frames and edits.
    #[inline(always)]
    fn push_tag(&mut self, burst: &FrameBatch, index: usize, window: &[u8], edit: &HeadEdit<'_>) -> bool {
        let frame = burst.frame(index);
        let FrameMeta { ref snapshot, first, end, skip, len, simple, .. } = *frame.meta;
        let (skip, len) = (skip as usize, len as usize);
        let is_usual = simple && end - first == 1 && ptr::eq(window, frame.snapshot());
        if !is_usual || edit.at != TAG_AT || len > FAST_FRAME_BYTES {
            return false;
        }
        let arena = burst.arena();
        let (Storage::Own(edited), Some(to)) = (&mut self.batch.storage, self.batch.metas.get_mut(index))
        else {
            return false;
        };
        to.first = edited.len();
        match (edit.removed, edit.inserted.first_chunk::<VLAN_TAG_BYTES>(), edit.inserted.len()) {
            (0, Some(tag), VLAN_TAG_BYTES) => {
                to.snapshot[..TAG_AT].copy_from_slice(&snapshot[..TAG_AT]);
                to.snapshot[TAG_AT..TAG_END].copy_from_slice(tag);
                to.snapshot[TAG_END..].copy_from_slice(&snapshot[TAG_AT..SNAPSHOT_BYTES - VLAN_TAG_BYTES]);
                // The end of the old snapshot lies behind the new one.
                let start = index * HEAD_BYTES;
                if let Some(last) = snapshot.last_chunk::<VLAN_TAG_BYTES>() {
                    self.heads.slice(start, HEAD_BYTES).write_array(SNAPSHOT_BYTES, last);
                }
                edited.append_one(
                    &self.whole,
                    0,
                    start,
                    (len + VLAN_TAG_BYTES).min(SNAPSHOT_BYTES + VLAN_TAG_BYTES),
                );
                if len > SNAPSHOT_BYTES {
                    edited.append_one(arena, first, skip + SNAPSHOT_BYTES, usize::MAX);
                }
                (to.skip, to.len) = (0, (len + VLAN_TAG_BYTES) as u32);
            }
            (VLAN_TAG_BYTES, None, 0) if len >= ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES => {
                to.snapshot[..TAG_AT].copy_from_slice(&snapshot[..TAG_AT]);
                to.snapshot[TAG_AT..SNAPSHOT_BYTES - VLAN_TAG_BYTES].copy_from_slice(&snapshot[TAG_END..]);
                if len > SNAPSHOT_BYTES {
                    let more = to.snapshot.last_chunk_mut::<VLAN_TAG_BYTES>();
                    let is_read = |more| {
                        arena.slice(first).is_some_and(|from| from.read_array(skip + SNAPSHOT_BYTES, more))
                    };
                    if !more.is_some_and(is_read) {
                        return false;
                    }
                }
                edited.append_one(arena, first, 0, usize::MAX);
                (to.skip, to.len) = ((skip + VLAN_TAG_BYTES) as u32, (len - VLAN_TAG_BYTES) as u32);
            }
            (VLAN_TAG_BYTES, Some(tag), VLAN_TAG_BYTES) if len >= TAG_END => {
                to.snapshot = *snapshot;
                to.snapshot[TAG_AT..TAG_END].copy_from_slice(tag);
                edited.append_one(arena, first, 0, usize::MAX);
                (to.skip, to.len) = (skip as u32, len as u32);
            }
            _ => return false,
        }
        (to.end, to.offload, to.simple) = (edited.len(), Offload::NONE, true);
        true
    }

    /// The general case: any edit of any frame.
    #[inline(never)] // so that `push_tag` is as short as it can be
    fn push_any(
        &mut self,
        burst: &FrameBatch,
        index: usize,
        window: &[u8],
        edit: &HeadEdit<'_>,
        offload: Option<Offload>,
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
        let offload = offload.or_else(|| meta.offload.edited(edit.at, removed, inserted, len));
        let offload = offload.ok_or(DropReason::OffloadImpossible)?;

        let arena = burst.arena();
        let slices = arena.slices(meta.first..meta.end);
        let skip = meta.skip as usize;
        let simple = offload == Offload::NONE;
        let (Storage::Own(edited), Some(to)) = (&mut self.batch.storage, self.batch.metas.get_mut(index))
        else {
            return Err(DropReason::TooShort);
        };

        // The known bytes go to the snapshot and, beyond its length, to this process's memory, so that the examined
        // bytes are the delivered bytes.
        let start = index * HEAD_BYTES;
        let head = self.heads.slice(start, HEAD_BYTES);
        let mut known = write_head(&[before, edit.inserted, behind], &mut to.snapshot, head);
        let mut taken = window.len();
        if known < SNAPSHOT_BYTES && len > known {
            let more = (SNAPSHOT_BYTES - known).min(len - known);
            let into = &mut to.snapshot[known..known + more];
            match slices {
                [only] => _ = only.slice(skip + taken, more).read(into),
                _ => _ = SgList::new(slices).skip(skip + taken).read(into),
            }
            (known, taken) = (known + more, taken + more);
        }

        (to.first, to.simple, to.offload, to.len) = (edited.len(), simple, offload, len as u32);
        let lies_as_before =
            known <= SNAPSHOT_BYTES && inserted <= removed && before.len() + inserted <= LEAST_PAYLOAD_AT;
        if lies_as_before {
            edited.append(arena, meta.first..meta.end, 0, usize::MAX);
            to.skip = (skip + removed - inserted) as u32;
        } else {
            if !simple {
                // Segments are made from these bytes, beginning with their payload.
                head.write_array(0, &to.snapshot);
            }
            edited.append(&self.whole, 0..1, start, known);
            edited.append(arena, meta.first..meta.end, skip + taken, usize::MAX);
            to.skip = 0;
        }
        to.end = edited.len();
        Ok(())
    }

    /// Forgets all frames. The senders' memory and log are no longer referenced.
    pub fn clear(&mut self) {
        if let Storage::Own(arena) = &mut self.batch.storage {
            arena.clear();
            arena.release();
            self.batch.metadata.clear();
        }
        (self.batch.len, self.batch.log) = (0, None);
    }
}

#[cfg(test)]
mod tests;
