//! Frames that this process sends itself, in memory that is made once.
use std::io;

use virtio::net::{HeaderLayout, NetHeader};

use crate::own::{OwnMemory, OwnSgBuilder};
use crate::{FrameBatch, LARGEST_FRAME_BYTES};

/// A batch of frames without offloads, and their memory. The memory is used again for the next frames.
#[derive(Debug)]
pub struct OwnFrames {
    memory: OwnMemory,
    builder: OwnSgBuilder,
    batch: FrameBatch,
    frames: usize,
    /// The bytes of the memory, and those that are used.
    bytes: usize,
    used: usize,
    /// The place of the frame that is being written, behind its net header.
    at: usize,
}

impl OwnFrames {
    /// Memory for so many frames with so many bytes altogether, net headers included.
    ///
    /// # Errors
    /// The memory file cannot be made or mapped.
    pub fn new(frames: usize, bytes: usize) -> io::Result<Self> {
        let memory = OwnMemory::new(c"tautline-frames", bytes as u64)?;
        let (builder, batch) = (memory.sg_builder(), FrameBatch::of_memory(frames));
        Ok(OwnFrames { memory, builder, batch, frames, bytes, used: 0, at: 0 })
    }

    /// The frames.
    pub fn batch(&self) -> &FrameBatch {
        &self.batch
    }

    /// Forgets all frames.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.used = 0;
    }

    /// Begins a frame of this length, whose bytes [`OwnFrames::write`] adds and which [`OwnFrames::end`] ends. Returns
    /// false if there is no room.
    pub fn begin(&mut self, frame_bytes: usize) -> bool {
        let end = self.used + NetHeader::BYTES + frame_bytes;
        if self.batch.len() == self.frames || end > self.bytes || frame_bytes > LARGEST_FRAME_BYTES {
            return false;
        }
        self.memory.slice(self.used, NetHeader::BYTES).write(&[0; NetHeader::BYTES]);
        self.at = self.used + NetHeader::BYTES;
        true
    }

    /// Adds bytes to the frame that was begun.
    pub fn write(&mut self, bytes: &[u8]) {
        self.memory.slice(self.at, bytes.len()).write(bytes);
        self.at += bytes.len();
    }

    /// Ends the frame that was begun. A frame that is too short is left out.
    pub fn end(&mut self) {
        let (offset, bytes) = (self.used as u64, (self.at - self.used) as u32);
        if let Some(arena) = self.batch.arena_mut() {
            let first = arena.len();
            self.builder.push(arena, offset, bytes);
            if self.batch.push(first, HeaderLayout::Full).is_ok() {
                self.used = self.at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_lent_as_they_were_written_and_the_memory_is_used_again() {
        let mut frames = OwnFrames::new(2, 300).unwrap();
        for round in 0..3_u8 {
            frames.clear();
            for length in [100, 120] {
                assert!(frames.begin(length));
                let bytes: Vec<u8> = (0..length as u8).map(|byte| byte ^ round).collect();
                bytes.chunks(33).for_each(|part| frames.write(part));
                frames.end();
                let frame = frames.batch().frames().last().unwrap();
                let mut read = vec![0; length];
                assert_eq!(frame.read(0, &mut read), length);
                assert!(read == bytes && frame.is_simple());
            }
            assert!(!frames.begin(60), "two frames are there");
        }
        frames.clear();
        assert!(!frames.begin(300) && frames.begin(288));
    }
}
