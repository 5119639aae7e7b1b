//! A frame that this process makes, to be sent like any other.
use std::io;

use virtio::net::{HeaderLayout, NetHeader};

use crate::FrameBatch;
use crate::own::OwnMemory;

impl FrameBatch {
    /// A batch of one frame without offloads, in memory that only this process writes.
    ///
    /// # Errors
    /// The frame is shorter than an Ethernet header or longer than [`crate::LARGEST_FRAME_BYTES`], or its memory
    /// file cannot be made or mapped.
    pub fn of_frame(frame: &[u8]) -> io::Result<FrameBatch> {
        let bytes = NetHeader::BYTES + frame.len();
        let memory = OwnMemory::new(c"tautline-frame", bytes as u64)?;
        memory.slice(NetHeader::BYTES, frame.len()).write(frame);
        let mut batch = FrameBatch::of_memory(1);
        if let Some(arena) = batch.arena_mut() {
            memory.sg_builder().push(arena, 0, bytes as u32);
        }
        batch.push(0, HeaderLayout::Full).map_err(|reason| io::Error::other(reason.text()))?;
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_our_own_is_lent_as_it_is() {
        let bytes: Vec<u8> = (0..100).collect();
        let batch = FrameBatch::of_frame(&bytes).unwrap();
        let frame = batch.frame(0);
        assert_eq!((batch.len(), frame.len_bytes(), frame.snapshot()), (1, 100, &bytes[..64]));
        let (slices, skip) = frame.slices();
        let mut rest = vec![0; 36];
        memory::SgList::new(slices).skip(skip + 64).read(&mut rest);
        assert_eq!(rest, bytes[64..]);
        assert!(FrameBatch::of_frame(&bytes[..13]).is_err(), "less than an Ethernet header is no frame");
    }
}
