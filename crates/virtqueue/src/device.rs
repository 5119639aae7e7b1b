//! What every device half can do, whatever its layout and features.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{AddressSpace, DirtyLog, Flush, SharedSlice, Translator};

use crate::error::{Malformed, Place, RingError, TakeError};
use crate::{Burst, Position, QueueSize};

/// The device half of a running queue.
///
/// One virtual call per burst; below it everything is compiled for the ring's layout and features.
pub trait DeviceQueue: Send {
    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// Takes up to `max` chains and appends them to `burst`, as far as it has room; returns how many.
    ///
    /// Fewer, but one, if these chains are much work: the others come with the next call.
    ///
    /// A chain that is malformed ends the burst before it; the error comes when it is first. A burst whose
    /// chains are all completed, or that came from another queue, is cleared first.
    fn take(&mut self, burst: &mut Burst, max: usize) -> Result<usize, TakeError>;

    /// Puts the chains from `from` on back as if they had not been taken; returns how many. Only chains
    /// that this queue handed out last can go back, and none of them completed; otherwise it is 0.
    fn put_back(&mut self, burst: &mut Burst, from: usize) -> usize;

    /// Gives chains of `burst` back to the driver, with the lengths that were set, and publishes once.
    ///
    /// Chains that are completed already are skipped. Ranges may be completed in any order, except that a
    /// queue with IN_ORDER wants the order in which the chains were taken. Chains of a queue that was
    /// reset are dropped.
    fn complete(&mut self, burst: &mut Burst, chains: Range<usize>);

    /// Completes all chains of `burst`.
    fn complete_all(&mut self, burst: &mut Burst) {
        self.complete(burst, 0..burst.len());
    }

    /// Whether the driver wants to be called for what was completed since this was last asked.
    fn needs_call(&mut self) -> bool;

    /// Asks the driver for a kick when more becomes available. True if something is there already: then
    /// take again, no kick will come for it.
    #[must_use]
    fn enable_kicks(&mut self) -> bool;

    /// Tells the driver that no kick is needed.
    fn disable_kicks(&mut self);

    /// The way to give up the lines that were read of the burst that was taken last, if that is good for its
    /// driver (see `flush`). The ring's own lines are seen to.
    fn flush(&self) -> Option<Flush>;

    /// Where the ring stands.
    fn position(&self) -> Position;

    /// Why the ring is stopped, if it is.
    fn broken(&self) -> Option<RingError>;

    /// Goes over to another snapshot of the guest's memory. Chains in bursts stay valid.
    fn set_space(&mut self, space: Arc<AddressSpace>);

    /// Starts or ends the logging of writes.
    fn set_log(&mut self, log: Option<UsedLog>);
}

/// A number that no other queue of this process has.
pub(crate) fn fresh_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a queue needs to log its writes for live migration.
#[derive(Clone, Debug)]
pub struct UsedLog {
    /// The bitmap.
    pub log: Arc<DirtyLog>,
    /// Where the ring itself is written, if that is to be logged too (`VHOST_VRING_F_LOG`).
    pub ring: Option<RingPlaces>,
}

/// Guest-physical addresses of what a device writes of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlaces {
    /// The used ring (split) or the descriptor ring (packed).
    pub used: u64,
    /// The device event suppression structure (packed). A split ring's is part of the used ring.
    pub device_event: u64,
}

impl UsedLog {
    pub(crate) fn mark_buffers(
        &self,
        translator: &Translator,
        slices: &[SharedSlice<'_>],
        written: u32,
    ) -> Result<(), RingError> {
        translator.mark_dirty(&self.log, slices, written.into()).map_err(too_small)
    }

    /// Marks the used entries `from .. to` and the index, which have been stored.
    pub(crate) fn mark_split_used(&self, from: u16, to: u16, size: QueueSize) -> Result<(), RingError> {
        let Some(RingPlaces { used, .. }) = self.ring else { return Ok(()) };
        self.log.mark(used, 4).map_err(too_small)?;
        self.mark_entries(used.saturating_add(4), 8, from & (size.get() - 1), to.wrapping_sub(from), size)
    }

    /// Marks the `count` used descriptors from `slot` on, which have been stored.
    pub(crate) fn mark_packed_used(&self, slot: u16, count: u16, size: QueueSize) -> Result<(), RingError> {
        let Some(RingPlaces { used, .. }) = self.ring else { return Ok(()) };
        self.mark_entries(used, 16, slot, count, size)
    }

    /// Marks the flags and the event index of a split ring's used ring: one of them has been stored.
    pub(crate) fn mark_split_events(&self, size: QueueSize) -> Result<(), RingError> {
        let Some(RingPlaces { used, .. }) = self.ring else { return Ok(()) };
        self.log.mark(used, 2).map_err(too_small)?;
        let event = used.saturating_add(4 + 8 * u64::from(size.get()));
        self.log.mark(event, 2).map_err(too_small)
    }

    /// Marks the device event suppression structure of a packed ring, which has been stored.
    pub(crate) fn mark_packed_events(&self) -> Result<(), RingError> {
        let Some(RingPlaces { device_event, .. }) = self.ring else { return Ok(()) };
        self.log.mark(device_event, 4).map_err(too_small)
    }

    fn mark_entries(
        &self,
        base: u64,
        entry_bytes: u64,
        first: u16,
        count: u16,
        size: QueueSize,
    ) -> Result<(), RingError> {
        let before_wrap = count.min(size.get() - first);
        let start = base.saturating_add(u64::from(first) * entry_bytes);
        self.log.mark(start, u64::from(before_wrap) * entry_bytes).map_err(too_small)?;
        self.log.mark(base, u64::from(count - before_wrap) * entry_bytes).map_err(too_small)
    }
}

#[cold]
fn too_small(error: memory::LogTooSmall) -> RingError {
    RingError { rule: Malformed::LogTooSmall, place: Place::Log, value: error.page }
}
