//! Frames to the kernel: one `writev` each, straight from where their sender put them.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use virtio::net::{Accepts, Delivery, HeaderLayout};

use super::sys;
use crate::deliver::{Parcels, Scratch};
use crate::own::OwnMemory;
use crate::{DropReason, Frame, HEAD_BYTES, LARGEST_FRAME_BYTES, Lending, QueueCounters, QueueError, Sink};

/// How frames begin on a TAP descriptor.
pub(super) const LAYOUT: HeaderLayout = HeaderLayout::Full;

/// One queue to the kernel.
#[derive(Debug)]
pub(super) struct TapSink {
    fd: Arc<OwnedFd>,
    accepts: Accepts,
    /// Where a frame is put together that cannot go as it lies.
    gathered: OwnMemory,
    counters: Arc<QueueCounters>,
}

impl TapSink {
    pub fn new(fd: Arc<OwnedFd>, accepts: Accepts, counters: Arc<QueueCounters>) -> io::Result<Self> {
        let bytes = (LAYOUT.bytes() + LARGEST_FRAME_BYTES) as u64;
        Ok(TapSink { fd, accepts, gathered: OwnMemory::new(c"tautline-tap-sink", bytes)?, counters })
    }

    #[inline]
    fn send(&self, frame: Frame<'_>) {
        if frame.len_bytes() > LARGEST_FRAME_BYTES {
            return self.counters.dropped(DropReason::TooLong, 1);
        }
        let as_is = self.accepts.delivery(frame.offload()) == Delivery::AsIs;
        match as_is && frame.pieces().0.len() <= sys::MAX_PIECES {
            true => self.count(frame.len_bytes(), self.write_in_place(frame)),
            false => self.send_gathered(frame),
        }
    }

    #[inline]
    fn write_in_place(&self, frame: Frame<'_>) -> Result<usize, Errno> {
        let header = frame.offload().header().to_bytes();
        let (pieces, before) = frame.pieces();
        // The head goes from its snapshot, so that what was checked is what arrives.
        let mut skip = before + frame.head().len().min(HEAD_BYTES);
        let rest = pieces.iter().filter_map(move |piece| {
            let rest = piece.slice(skip, usize::MAX);
            skip -= piece.len_bytes() - rest.len_bytes();
            (!rest.is_empty()).then_some(rest)
        });
        sys::write(self.fd.as_fd(), &[&header[..LAYOUT.bytes()], frame.head()], rest)
    }

    #[cold]
    fn send_gathered(&self, frame: Frame<'_>) {
        let mut scratch = Scratch::default();
        let parcels = match Parcels::of(frame, &self.accepts, &mut scratch) {
            Ok(parcels) => parcels,
            Err(reason) => return self.counters.dropped(reason, 1),
        };
        for index in 0..parcels.count() {
            let bytes = parcels.len_bytes(index);
            if bytes > LARGEST_FRAME_BYTES {
                self.counters.dropped(DropReason::TooLong, 1);
                continue;
            }
            let whole = self.gathered.slice(0, LAYOUT.bytes() + bytes);
            parcels.write(index, &[whole], LAYOUT, 1);
            self.count(bytes, sys::write(self.fd.as_fd(), &[&[], &[]], std::iter::once(whole)));
        }
    }

    /// A refusal costs its frame, never the queue: an interface that is down may come up again.
    #[inline]
    fn count(&self, bytes: usize, written: Result<usize, Errno>) {
        match written {
            Ok(_) => self.counters.passed(1, bytes as u64),
            Err(Errno::EAGAIN) => self.counters.dropped(DropReason::ReceiverFull, 1),
            Err(_) => self.counters.dropped(DropReason::System, 1),
        }
    }
}

impl Sink for TapSink {
    fn accept(&mut self, lending: &Lending, which: &[u16]) -> Result<(), QueueError> {
        for index in which {
            self.send(lending.frame(usize::from(*index)));
        }
        Ok(())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
