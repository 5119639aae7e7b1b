//! For tests: the path of a frame from a sender's buffers to a receiver's, without rings.
use std::io;

use frame::{DropReason, FrameBatch, LARGEST_FRAME_BYTES, OwnMemory};
use virtio::net::{Accepts, HeaderLayout, NetHeader};

use crate::deliver::{GsoOutput, Scratch};

/// Room for the largest frame, its pieces apart.
const AREA: usize = 1 << 18;

/// The memory of a sender and of a receiver.
#[derive(Debug)]
pub struct Bench {
    from: OwnMemory,
    to: OwnMemory,
}

/// The frame that a receiver gets.
#[derive(Debug)]
pub struct Delivered {
    /// The net header of the frame.
    pub header: NetHeader,
    /// Its bytes.
    pub frame: Vec<u8>,
}

impl Bench {
    /// A bench with two memory files: the sender's and the receiver's.
    ///
    /// # Errors
    /// A memory file cannot be made or mapped, for example at the open-files limit.
    pub fn new() -> io::Result<Self> {
        let memory = || OwnMemory::new(c"deliver", AREA as u64);
        Ok(Bench { from: memory()?, to: memory()? })
    }

    /// Delivers a frame from pieces of the lengths `splits` (the last takes the rest) to buffers of the receiver that
    /// are divided at `split` bytes.
    ///
    /// # Errors
    /// The reason for which the frame is dropped: its length, its net header, or an offload that cannot be done.
    pub fn deliver(
        &self,
        header: &NetHeader,
        frame: &[u8],
        splits: &[usize],
        accepts: &Accepts,
        split: usize,
    ) -> Result<Vec<Delivered>, DropReason> {
        let bytes: Vec<u8> = header.to_bytes().into_iter().chain(frame.iter().copied()).collect();
        if bytes.len() > NetHeader::BYTES + LARGEST_FRAME_BYTES {
            return Err(DropReason::TooLong);
        }
        let mut batch = FrameBatch::of_memory(1);
        let mut builder = self.from.sg_builder();
        let (mut at, mut place) = (0, 0);
        for &split in splits.iter().chain([&usize::MAX]) {
            let len = split.min(bytes.len() - at);
            self.from.slice(place, len).write(&bytes[at..at + len]);
            if let (Some(arena), 1..) = (batch.arena_mut(), len) {
                builder.push(arena, place as u64, len as u32);
            }
            at += len;
            // A copy that runs on where a piece ends is seen.
            place += len + 3;
        }
        batch.push(0, HeaderLayout::Full)?;
        let mut scratch = Scratch::default();
        let output = GsoOutput::of(batch.frame(0), accepts, &mut scratch)?;
        Ok((0..output.count()).map(|index| self.received(&output, index, split)).collect())
    }

    fn received(&self, output: &GsoOutput<'_>, index: usize, split: usize) -> Delivered {
        let bytes = NetHeader::BYTES + output.len_bytes(index);
        let first = split.min(bytes);
        let second = AREA / 2;
        let to = [self.to.slice(0, first), self.to.slice(second, bytes - first)];
        let guard = self.to.slice(second + bytes - first, 1);
        guard.write(&[0xee]);
        assert_eq!(output.write(index, &to, HeaderLayout::Full, 1), bytes);
        let mut read = [0];
        guard.read(&mut read);
        assert_eq!(read, [0xee], "nothing is written behind the frame");
        let mut all = vec![0; bytes];
        to[0].read(&mut all[..first]);
        to[1].read(&mut all[first..]);
        let header: [u8; NetHeader::BYTES] = std::array::from_fn(|at| all[at]);
        Delivered {
            header: NetHeader::from_bytes(&header, HeaderLayout::Full),
            frame: all.split_off(NetHeader::BYTES),
        }
    }
}
