//! Frames to the kernel: one `writev` each, directly from the sender's memory.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use frame::{DropReason, Frame, FrameBatch, LARGEST_FRAME_BYTES, OwnMemory, QueueCounters, QueueError, Sink};
use rustix::io::Errno;
use virtio::net::{Accepts, HeaderLayout, NetHeader};

use super::sys;
use net_queues::deliver::{GsoOutput, Scratch};

/// The layout of the net header on a TAP descriptor.
pub(super) const LAYOUT: HeaderLayout = HeaderLayout::Full;

/// One queue to the kernel.
#[derive(Debug)]
pub(super) struct TapSink {
    fd: Arc<OwnedFd>,
    accepts: Accepts,
    /// Memory in which a frame is assembled that cannot be written from the sender's memory.
    gathered: OwnMemory,
    counters: Arc<QueueCounters>,
}

impl TapSink {
    /// A sink for one queue of a TAP interface.
    ///
    /// # Errors
    /// The memory for one frame cannot be made or mapped.
    pub fn new(fd: Arc<OwnedFd>, accepts: Accepts, counters: Arc<QueueCounters>) -> io::Result<Self> {
        let bytes = (LAYOUT.bytes() + LARGEST_FRAME_BYTES) as u64;
        Ok(TapSink { fd, accepts, gathered: OwnMemory::new(c"tautline-tap-sink", bytes)?, counters })
    }

    #[inline]
    fn send(&self, frame: Frame<'_>, scratch: &mut Scratch) {
        if frame.len_bytes() > LARGEST_FRAME_BYTES {
            return self.counters.dropped(DropReason::TooLong, 1);
        }
        match GsoOutput::of(frame, &self.accepts, scratch) {
            Ok(GsoOutput::AsIs(frame, header)) if frame.slices().0.len() <= sys::MAX_SLICES => {
                self.count(frame.len_bytes(), self.write_in_place(frame, header));
            }
            Ok(output) => self.send_gathered(&output),
            Err(reason) => self.counters.dropped(reason, 1),
        }
    }

    #[inline]
    fn write_in_place(&self, frame: Frame<'_>, header: NetHeader) -> Result<usize, Errno> {
        let (slices, before) = frame.slices();
        // The start goes from the snapshot, so that what was checked is what arrives.
        let mut skip = before + frame.snapshot().len();
        let rest = slices.iter().filter_map(move |slice| {
            let rest = slice.slice(skip, usize::MAX);
            skip -= slice.len_bytes() - rest.len_bytes();
            (!rest.is_empty()).then_some(rest)
        });
        sys::write(self.fd.as_fd(), &[&header.to_bytes()[..LAYOUT.bytes()], frame.snapshot()], rest)
    }

    #[cold]
    fn send_gathered(&self, output: &GsoOutput<'_>) {
        for index in 0..output.count() {
            let bytes = output.len_bytes(index);
            if bytes > LARGEST_FRAME_BYTES {
                self.counters.dropped(DropReason::TooLong, 1);
                continue;
            }
            let whole = self.gathered.slice(0, LAYOUT.bytes() + bytes);
            output.write(index, &[whole], LAYOUT, 1);
            self.count(bytes, sys::write(self.fd.as_fd(), &[&[], &[]], std::iter::once(whole)));
        }
    }

    /// A refusal costs its frame, never the queue: an interface that is down may come up again.
    #[inline]
    fn count(&self, bytes: usize, written: Result<usize, Errno>) {
        match written {
            Ok(_) => self.counters.passed(1, bytes as u64),
            Err(Errno::AGAIN) => self.counters.dropped(DropReason::ReceiverFull, 1),
            Err(_) => self.counters.dropped(DropReason::System, 1),
        }
    }
}

impl Sink for TapSink {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        let mut scratch = Scratch::default();
        for index in which {
            self.send(batch.frame(usize::from(*index)), &mut scratch);
        }
        Ok(())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
