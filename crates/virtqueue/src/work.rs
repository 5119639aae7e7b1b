//! What one driver may make a device do at once.

use crate::chain::Chain;

/// Most descriptors of a chain in the ring, and of a table. Work per chain must have a bound, and the queue size
/// is none: it may be 32 768, and drivers make tables longer than a small queue although §2.7.5.3.1 forbids it.
/// QEMU's devices (`VIRTQUEUE_MAX_SIZE`) and Linux's vhost (`UIO_MAXIOV`) take no more either, so no driver of
/// theirs makes more; a frame of 64 KiB in pages of 4 KiB needs 18.
pub(crate) const MAX_CHAIN: u16 = 1024;

/// Most pieces of a chain: it has more of them than descriptors where buffers go from one region to the next.
pub(crate) const MAX_PIECES: u32 = 2 * MAX_CHAIN as u32;

/// Work of one call of [`crate::DeviceQueue::pop`], in descriptors followed and pieces of chains that have several:
/// a worker that polls many queues must return soon, whatever one driver puts in its chains. This work takes some
/// tens of microseconds; 64 chains of a 64 KiB frame each, in pages of 4 KiB, are within it.
pub(crate) const POP_WORK: u32 = 4096;

/// Adds up what chains cost.
#[derive(Debug, Default)]
pub struct Work {
    total: u32,
    /// Until it is enough for this call; see [`POP_WORK`].
    left: u32,
}

impl Work {
    /// A call of `take` begins.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.left = POP_WORK;
    }

    /// So many descriptors of a chain were followed beside its first.
    #[inline(always)]
    pub fn followed(&mut self, descriptors: u32) {
        self.total = self.total.wrapping_add(descriptors);
        self.left = self.left.saturating_sub(descriptors);
    }

    /// A chain of other than one piece was popped.
    #[inline(always)]
    pub fn chain(&mut self, chain: &Chain) {
        self.followed(chain.pieces());
    }

    /// All of it; goes on from 0 behind the largest number.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Whether it is enough for this call.
    #[inline(always)]
    pub fn is_enough(&self) -> bool {
        self.left == 0
    }
}
