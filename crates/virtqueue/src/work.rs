//! Limits on the work that one driver may cause in one call.

use crate::chain::Chain;

/// The most descriptors of a chain in the ring, and of an indirect table. Work for each chain must be limited, and
/// the queue size is not a sufficient limit: it may be 32 768, and drivers make tables longer than a small queue
/// although §2.7.5.3.1 forbids it. QEMU's devices (`VIRTQUEUE_MAX_SIZE`) and Linux's vhost (`UIO_MAXIOV`) have the
/// same limit, so no driver for them makes longer chains. A frame of 64 KiB in pages of 4 KiB needs 18 descriptors.
pub(crate) const MAX_CHAIN: u16 = 1024;

/// The most pieces of a chain. A buffer that crosses from one region to the next has more pieces than descriptors.
pub(crate) const MAX_PIECES: u32 = 2 * MAX_CHAIN as u32;

/// The most work of one call of [`crate::DeviceQueue::pop`]: descriptors followed, and pieces of chains that have
/// several. A worker that polls many queues must return soon, whatever one driver puts into its chains. This work
/// takes some tens of microseconds. 64 chains with a frame of 64 KiB each, in pages of 4 KiB, are below the limit.
pub(crate) const POP_WORK: u32 = 4096;

/// Adds up the work of popping chains.
#[derive(Debug, Default)]
pub struct Work {
    total: u32,
    /// The work that is left for this call; see [`POP_WORK`].
    left: u32,
}

impl Work {
    /// Begins a call of `pop`.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.left = POP_WORK;
    }

    /// Adds `descriptors` descriptors of a chain that were followed after its first.
    #[inline(always)]
    pub fn followed(&mut self, descriptors: u32) {
        self.total = self.total.wrapping_add(descriptors);
        self.left = self.left.saturating_sub(descriptors);
    }

    /// Adds a chain that has not exactly one piece.
    #[inline(always)]
    pub fn chain(&mut self, chain: &Chain) {
        self.followed(chain.pieces());
    }

    /// The total work. The counter wraps around to 0.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Whether the limit of this call is reached.
    #[inline(always)]
    pub fn is_enough(&self) -> bool {
        self.left == 0
    }
}
