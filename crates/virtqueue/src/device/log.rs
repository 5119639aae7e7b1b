//! The dirty log of a device queue: its writes, for live migration (vhost-user, "Migration").

use std::sync::Arc;

use memory::{DirtyLog, SharedSlice, Translator};

use crate::QueueSize;
use crate::error::{Malformed, Place, RingError};

/// The state with which a queue logs its writes for live migration.
#[derive(Clone, Debug)]
pub struct UsedLog {
    /// The bitmap.
    pub log: Arc<DirtyLog>,
    /// The guest-physical addresses of the ring, if its own writes are to be logged too (`VHOST_VRING_F_LOG`).
    pub ring: Option<RingPlaces>,
}

/// Guest-physical addresses of the parts of a ring that a device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPlaces {
    /// The used ring (split) or the descriptor ring (packed).
    pub used: u64,
    /// The device event suppression structure (packed). For a split ring this is part of the used ring.
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

    /// Marks the flags and the event index of a split ring's used ring, one of which has been stored.
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
