//! Metadata of frames, and frames that carry theirs in front.
use memory::SgList;
use virtio::net::Offload;

use super::{FrameBatch, Storage};
use crate::Metadata;
use crate::frame::{ETHERNET_HEADER_BYTES, SNAPSHOT_BYTES};

impl FrameBatch {
    /// The metadata of a frame, if it has any.
    #[inline(always)]
    pub fn metadata(&self, index: usize) -> Option<&Metadata> {
        self.metadata.get(index)?.as_ref()
    }

    /// Gives a frame metadata.
    pub fn set_metadata(&mut self, index: usize, metadata: &Metadata) {
        if index >= self.metadata.len() {
            self.metadata.resize(index + 1, None);
        }
        self.metadata[index] = Some(*metadata);
    }

    /// Makes room for the metadata of this many frames, so that giving them metadata does not allocate.
    pub fn reserve_metadata(&mut self, frames: usize) {
        self.metadata.reserve(frames);
    }

    /// Reads the first bytes of a frame in memory of this process, and takes them off the frame. Returns false, and the
    /// frame is unspecified then, if the rest is shorter than an Ethernet header or its offload has no place in it.
    pub fn take_front(&mut self, index: usize, into: &mut [u8]) -> bool {
        let (Some(meta), Storage::Own(arena)) = (self.metas[..self.len].get_mut(index), &self.storage) else {
            return false;
        };
        let len = (meta.len as usize).saturating_sub(into.len());
        if len < ETHERNET_HEADER_BYTES {
            return false;
        }
        let Some(offload) = meta.offload.edited(0, into.len(), 0, len) else { return false };
        let list = SgList::new(arena.slices(meta.first..meta.end));
        list.skip(meta.skip as usize).read(into);
        (meta.skip, meta.len) = (meta.skip + into.len() as u32, len as u32);
        (meta.offload, meta.simple) = (offload, offload == Offload::NONE);
        let known = len.min(SNAPSHOT_BYTES);
        let list = SgList::new(arena.slices(meta.first..meta.end));
        list.skip(meta.skip as usize).read(&mut meta.snapshot[..known]);
        true
    }

    /// Removes a frame. Those behind it come one place forward.
    pub fn remove(&mut self, index: usize) {
        if index < self.len {
            self.metas[index..self.len].rotate_left(1);
            self.len -= 1;
        }
        if index < self.metadata.len() {
            self.metadata.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use virtio::net::{HeaderLayout, NetHeader};

    use super::*;
    use crate::OwnMemory;

    #[test]
    fn bytes_in_front_of_a_frame_are_taken_off() {
        let memory = OwnMemory::new(c"test", 4096).unwrap();
        let bytes: Vec<u8> = (0..200).collect();
        memory.slice(NetHeader::BYTES, 200).write(&bytes);
        let mut batch = FrameBatch::of_memory(1);
        memory.sg_builder().push(batch.arena_mut().unwrap(), 0, (NetHeader::BYTES + 200) as u32);
        batch.push(0, HeaderLayout::Full).unwrap();
        let mut front = [0; 120];
        assert!(batch.take_front(0, &mut front));
        assert_eq!(front, bytes[..120]);
        let frame = batch.frame(0);
        let mut rest = [0; 90];
        assert_eq!((frame.len_bytes(), frame.read(0, &mut rest)), (80, 80));
        assert_eq!((&rest[..80], frame.snapshot()), (&bytes[120..], &bytes[120..184]));
        assert!(!batch.take_front(0, &mut front), "less than an Ethernet header");
        assert_eq!(batch.metadata(0), None);
        batch.set_metadata(0, &[7; crate::METADATA_WORDS]);
        assert_eq!(batch.metadata(0), Some(&[7; crate::METADATA_WORDS]));
        batch.clear();
        assert_eq!(batch.metadata(0), None);
    }
}
