//! The cost of frames. It ends a burst before the burst keeps all ports waiting.
use crate::frame::FrameMeta;

/// The most work of one batch, in copied bytes, until it is [full](crate::FrameBatch::is_full): four frames of 64 KiB.
/// The sender chooses how long its frames are, in how many pieces they lie, and into how many segments they are cut,
/// and all ports have to wait for the copies. Frames above this limit are not lost: they come with the next burst.
///
/// A frame in one piece, without offloads, of up to [`FAST_FRAME_BYTES`](crate::frame::FAST_FRAME_BYTES) never
/// ends a burst: 32 of them cost little more.
pub(super) const MAX_WORK: u32 = 256 << 10;

/// The work of one segment, which has its own headers and buffer: the time of copying this many bytes.
const SEGMENT: u32 = 1024;

/// The work of following a descriptor, or of finding and copying one piece in the guest's memory: the time of copying
/// this many bytes, if the pieces are in 500 regions.
const DESCRIPTOR_OR_PIECE: u32 = 512;

/// One count's most, so that those of 256 frames add up.
const MOST: u32 = 4 << 20;

/// The cost of popping these ([`virtqueue::Burst::work`]).
pub(super) fn of_popped(descriptors_and_pieces: u32) -> u32 {
    DESCRIPTOR_OR_PIECE.saturating_mul(descriptors_and_pieces).min(MOST)
}

/// How many chains roughly fill a batch, if `chains` chains cost `work`.
pub(super) fn enough(chains: usize, work: u32) -> usize {
    (chains * MAX_WORK as usize / work.max(MAX_WORK) as usize).max(1)
}

impl FrameMeta {
    /// The cost of delivering the frame, in addition to the copy of its bytes.
    pub(super) fn extra_work(&self) -> u32 {
        let segments =
            self.offload.segmentation.map_or(0, |gso| self.len.div_ceil(gso.segment_bytes.get().into()));
        segments.saturating_mul(SEGMENT).min(MOST)
    }
}
