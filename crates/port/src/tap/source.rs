//! Frames from the kernel: one `read` each, into memory of our own.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;

use super::sink::LAYOUT;
use super::sys;
use crate::own::{OwnLender, OwnMemory};
use crate::{DropReason, LARGEST_FRAME_BYTES, Lending, QueueCounters, QueueError, Source};

/// Most frames of one lending.
const SLOTS: usize = 64;

/// Room for any frame and one byte more, by which a longer one shows itself; an odd number of cache lines,
/// so that the frames' starts do not compete for the same sets.
const SLOT_BYTES: usize = (LAYOUT.bytes() + LARGEST_FRAME_BYTES + 1).div_ceil(64) / 2 * 128 + 64;

/// One queue from the kernel. Looking for frames is a system call: that is a TAP's nature.
#[derive(Debug)]
pub(super) struct TapSource {
    fd: Arc<OwnedFd>,
    slots: OwnMemory,
    lender: OwnLender,
    lending: Lending,
    lent: bool,
    counters: Arc<QueueCounters>,
}

impl TapSource {
    pub fn new(fd: Arc<OwnedFd>, counters: Arc<QueueCounters>) -> io::Result<Self> {
        let slots = OwnMemory::new(c"tautline-tap-source", (SLOTS * SLOT_BYTES) as u64)?;
        let lender = slots.lender();
        Ok(TapSource { fd, slots, lender, lending: Lending::of_memory(SLOTS), lent: false, counters })
    }

    /// Makes a frame of a slot that was just read into.
    #[inline]
    fn push(&mut self, slot: usize, bytes: usize) {
        let Some(lent) = self.lending.lent_mut() else { return };
        let first = lent.len();
        self.lender.push(lent, (slot * SLOT_BYTES) as u64, bytes as u32);
        // A full slot may be all of a frame or the start of one: no frame that we offered to take is so long.
        let pushed =
            if bytes == SLOT_BYTES { Err(DropReason::TooLong) } else { self.lending.push(first, LAYOUT) };
        match pushed {
            Ok(()) => self.counters.passed(1, (bytes - LAYOUT.bytes()) as u64),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }
}

impl Source for TapSource {
    fn lend(&mut self, max: usize) -> Result<&Lending, QueueError> {
        debug_assert!(!self.lent, "what was lent before is released first");
        for slot in 0..max.min(SLOTS) {
            let into = self.slots.slice(slot * SLOT_BYTES, SLOT_BYTES);
            match sys::read(self.fd.as_fd(), into) {
                Ok(bytes) => self.push(slot, bytes),
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                // What came before is still to be lent; the error comes again.
                Err(_) if self.lent => break,
                Err(errno) => {
                    return Err(QueueError::System { action: "read from the TAP", source: errno.into() });
                }
            }
            self.lent = true;
            if self.lending.is_full() {
                break;
            }
        }
        Ok(&self.lending)
    }

    fn lent(&self) -> bool {
        self.lent
    }

    fn release(&mut self) {
        self.lending.clear();
        self.lent = false;
    }

    fn sleep(&mut self) -> bool {
        // The descriptor itself is readable while a frame waits.
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
