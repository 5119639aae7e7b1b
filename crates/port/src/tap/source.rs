//! Frames from the kernel: one `read` each, into memory of this process.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use frame::{
    DropReason, FrameBatch, LARGEST_FRAME_BYTES, OwnMemory, OwnSgBuilder, QueueCounters, QueueError, Source,
};
use rustix::io::Errno;

use super::patience::Patience;
use super::sink::LAYOUT;
use super::sys;

/// The most frames of one batch.
const SLOTS: usize = 64;

/// Room for any frame and one byte more, by which a longer one shows itself; an odd number of cache lines,
/// so that the frames' starts do not compete for the same sets.
const SLOT_BYTES: usize = (LAYOUT.bytes() + LARGEST_FRAME_BYTES + 1).div_ceil(64) / 2 * 128 + 64;

/// One queue from the kernel. Each poll is a system call, because a TAP has no ring.
#[derive(Debug)]
pub(super) struct TapSource {
    fd: Arc<OwnedFd>,
    slots: OwnMemory,
    builder: OwnSgBuilder,
    batch: FrameBatch,
    needs_release: bool,
    patience: Patience,
    counters: Arc<QueueCounters>,
}

impl TapSource {
    /// A source for one queue of a TAP interface.
    ///
    /// # Errors
    /// The memory for a batch of frames cannot be made or mapped.
    pub fn new(fd: Arc<OwnedFd>, counters: Arc<QueueCounters>) -> io::Result<Self> {
        let slots = OwnMemory::new(c"tautline-tap-source", (SLOTS * SLOT_BYTES) as u64)?;
        let builder = slots.sg_builder();
        Ok(TapSource {
            fd,
            slots,
            builder,
            batch: FrameBatch::of_memory(SLOTS),
            needs_release: false,
            patience: Patience::default(),
            counters,
        })
    }

    /// Makes a frame of a slot that was just read into.
    #[inline]
    fn push(&mut self, slot: usize, bytes: usize) {
        let Some(arena) = self.batch.arena_mut() else { return };
        let first = arena.len();
        self.builder.push(arena, (slot * SLOT_BYTES) as u64, bytes as u32);
        // A full slot may be all of a frame or the start of one: no frame that we offered to take is so long.
        let pushed =
            if bytes == SLOT_BYTES { Err(DropReason::TooLong) } else { self.batch.push(first, LAYOUT) };
        match pushed {
            Ok(()) => self.counters.passed(1, (bytes - LAYOUT.bytes()) as u64),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }
}

impl Source for TapSource {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        debug_assert!(!self.needs_release, "the batch before is released first");
        if !self.patience.is_over() {
            return Ok(&self.batch);
        }
        for slot in 0..max.min(SLOTS) {
            let into = self.slots.slice(slot * SLOT_BYTES, SLOT_BYTES);
            match sys::read(self.fd.as_fd(), into) {
                Ok(bytes) => self.push(slot, bytes),
                Err(Errno::AGAIN | Errno::INTR) => break,
                // The frames before the error must still be passed on; the next read returns the error again.
                Err(_) if self.needs_release => break,
                Err(errno) => {
                    return Err(QueueError::System { action: "read from the TAP", source: errno.into() });
                }
            }
            self.needs_release = true;
            if self.batch.is_full() {
                break;
            }
        }
        match self.needs_release {
            true => self.patience.end(),
            false => self.patience.in_vain(),
        }
        Ok(&self.batch)
    }

    fn needs_release(&self) -> bool {
        self.needs_release
    }

    fn release(&mut self) {
        self.batch.clear();
        self.needs_release = false;
    }

    fn sleep(&mut self) -> bool {
        // The descriptor itself is readable while a frame waits: what wakes the worker is looked for at once.
        self.patience.end();
        false
    }

    fn wake(&mut self) {}

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
