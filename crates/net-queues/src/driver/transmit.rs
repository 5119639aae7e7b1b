//! A sink over a driver's transmitq: accepted frames go to the device.
use std::sync::Arc;

use frame::{DropReason, Frame, FrameBatch, ImagesId, QueueCounters, QueueError, Sink};
use memory::{Access, SharedSlice};
use vhost_device::EventFd;
use virtio::net::{Accepts, HeaderLayout};
use virtqueue::{Buffer, Direction, DriverQueue, Piece, Request, RingError, Used};

use super::{Buffers, MAX_BUFFERS_PER_FRAME};
use crate::cache_policy::Temporal;
use crate::deliver::{GsoOutput, Scratch, write_front, write_plain};

/// Buffers that are on their way while one is written.
const AHEAD: usize = 6;

/// The end of a list of buffers.
const LAST: u16 = u16::MAX;

/// Frames are copied to buffers of this process, and the device reads them from there.
pub struct Transmit {
    queue: Box<dyn DriverQueue>,
    kick: EventFd,
    buffers: Buffers,
    pool: Pool,
    /// Offloads that the device accepts unfinished.
    accepts: Accepts,
    used: Vec<Used>,
    /// Frames in one buffer that are still to be added to the ring.
    singles: Vec<Buffer>,
    buffer_images: BufferImages,
    counters: Arc<QueueCounters>,
}

/// By buffer: the images, and the length, of the frame that was last copied there, if it was made of images.
/// Empty while others go through, which so have nothing to keep up to date.
#[derive(Default)]
struct BufferImages(Vec<Option<(ImagesId, usize)>>);

impl BufferImages {
    /// Notes what a buffer holds from now on; whether it did before.
    #[inline(always)]
    fn replace(&mut self, buffer: u16, count: u16, images: ImagesId, bytes: usize) -> bool {
        if self.0.is_empty() {
            self.0.resize(count.into(), None);
        }
        let there = self.0.get_mut(usize::from(buffer));
        there.is_some_and(|there| there.replace((images, bytes)) == Some((images, bytes)))
    }

    #[inline(always)]
    fn forget(&mut self) {
        self.0.clear();
    }
}

/// Which buffers are free, and which belong together. All of it is ours: nothing that the device can write
/// is a link.
struct Pool {
    /// The free buffers. The buffer that was freed last is used first, because its lines are still in the cache.
    free: Vec<u16>,
    /// For each buffer, the next one of the same frame.
    next: Vec<u16>,
}

impl Pool {
    fn new(count: u16) -> Self {
        Pool { free: (0..count).rev().collect(), next: vec![LAST; count.into()] }
    }

    /// The buffers of a frame, by its first.
    #[inline(always)]
    fn give_back(&mut self, first: u16) {
        let mut at = first;
        while let Some(next) = self.next.get_mut(usize::from(at)) {
            self.free.push(at);
            at = std::mem::replace(next, LAST);
        }
    }
}

impl Transmit {
    /// A sink over a fresh queue. It uses the buffers at the queue's index in the driver's memory.
    pub fn new(
        mut queue: Box<dyn DriverQueue>,
        kick: EventFd,
        buffers: Buffers,
        accepts: Accepts,
        counters: Arc<QueueCounters>,
    ) -> Self {
        // Used buffers are reclaimed when there is something to send; no thread waits for them.
        queue.disable_calls();
        let count = buffers.count();
        let capacity = usize::from(count);
        Transmit {
            queue,
            kick,
            buffers,
            pool: Pool::new(count),
            accepts,
            used: Vec::with_capacity(capacity),
            singles: Vec::with_capacity(capacity),
            buffer_images: BufferImages::default(),
            counters,
        }
    }

    /// Takes back what the device has read.
    #[inline]
    fn reclaim(&mut self) -> Result<(), RingError> {
        self.used.clear();
        self.queue.reclaim(&mut self.used, usize::MAX)?;
        for used in &self.used {
            self.pool.give_back(used.cookie as u16);
        }
        Ok(())
    }

    /// Copies a frame that needs one buffer and no processing, as nearly all do. False, and nothing has happened, if it
    /// takes more than that.
    ///
    /// For a frame made of images, the bytes behind the snapshot are copied unless the buffer already contains them. (A
    /// device that changed them would be sending itself other frames.)
    #[inline(always)]
    fn put_plain(&mut self, frame: &Frame<'_>, images: Option<ImagesId>) -> bool {
        let Some(&buffer) = self.pool.free.last() else { return false };
        self.prefetch_later();
        let (to, count) = (self.buffers.slice(buffer), self.buffers.count());
        let there =
            images.is_some_and(|images| self.buffer_images.replace(buffer, count, images, frame.len_bytes()));
        // §5.1.6.2.1: the driver sets num_buffers to 0.
        let written = match there {
            true => write_front(Temporal, frame, to, HeaderLayout::Full, 0),
            false => write_plain(Temporal, frame, to, HeaderLayout::Full, 0),
        };
        let Some(written) = written else {
            // The frame overwrites the content of other buffers.
            self.buffer_images.forget();
            return false;
        };
        self.pool.free.pop();
        self.add_single(buffer, written);
        true
    }

    /// The device's core has read the free buffers: prefetches their lines.
    #[inline(always)]
    fn prefetch_later(&self) {
        let later = self.pool.free.len().checked_sub(1 + AHEAD);
        if let Some(&buffer) = later.and_then(|at| self.pool.free.get(at)) {
            self.buffers.slice(buffer).prefetch(Access::Write);
        }
    }

    #[inline(always)]
    fn add_single(&mut self, buffer: u16, written: usize) {
        let address = self.buffers.address(buffer);
        self.singles.push(Buffer { address, len: written as u32, cookie: buffer.into() });
    }

    /// Copies one frame to a buffer, or to several.
    fn put(&mut self, output: &GsoOutput<'_>, index: usize) -> Result<(), DropReason> {
        let bytes = HeaderLayout::Full.bytes() + output.len_bytes(index);
        if bytes > self.buffers.bytes() as usize {
            return self.put_in_several(output, index, bytes);
        }
        let buffer = self.pool.free.pop().ok_or(DropReason::ReceiverFull)?;
        let written = output.write(index, &[self.buffers.slice(buffer)], HeaderLayout::Full, 0);
        self.add_single(buffer, written);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn put_in_several(
        &mut self,
        output: &GsoOutput<'_>,
        index: usize,
        bytes: usize,
    ) -> Result<(), DropReason> {
        // Frames keep their order.
        self.add_singles();
        let each = self.buffers.bytes() as usize;
        let needs = bytes.div_ceil(each);
        if needs > MAX_BUFFERS_PER_FRAME {
            return Err(DropReason::TooLong);
        }
        let rest = self.pool.free.len().checked_sub(needs).ok_or(DropReason::ReceiverFull)?;
        let chosen = &self.pool.free[rest..];
        let (mut slices, mut parts) = (
            [self.buffers.slice(0); MAX_BUFFERS_PER_FRAME],
            [Piece { address: 0, len: 0 }; MAX_BUFFERS_PER_FRAME],
        );
        for (i, &buffer) in chosen.iter().enumerate() {
            slices[i] = self.buffers.slice(buffer).slice(0, bytes - i * each);
            parts[i] = Piece { address: self.buffers.address(buffer), len: slices[i].len_bytes() as u32 };
        }
        let slices: &[SharedSlice<'_>] = &slices[..needs];
        output.write(index, slices, HeaderLayout::Full, 0);
        let cookie = chosen[0].into();
        let request = Request { readable: &parts[..needs], writable: &[], cookie };
        if self.queue.add_requests(&[request]) == 0 {
            return Err(DropReason::ReceiverFull);
        }
        for pair in chosen.windows(2) {
            self.pool.next[usize::from(pair[0])] = pair[1];
        }
        self.pool.free.truncate(rest);
        self.counters.passed(1, output.len_bytes(index) as u64);
        Ok(())
    }

    /// Shows the device the frames of one buffer. There is a descriptor for each frame, unless longer frames have used
    /// them.
    #[inline]
    fn add_singles(&mut self) {
        let added = self.queue.add(&self.singles, Direction::ToDevice);
        for buffer in self.singles.drain(added..) {
            self.pool.give_back(buffer.cookie as u16);
            self.counters.dropped(DropReason::ReceiverFull, 1);
        }
        let bytes: u64 = self.singles.iter().map(|buffer| u64::from(buffer.len)).sum();
        let header = HeaderLayout::Full.bytes() as u64;
        self.counters.passed(added as u64, bytes - header * added as u64);
        self.singles.clear();
    }

    /// Sends one frame, or its segments.
    #[inline(never)]
    fn deliver(&mut self, frame: Frame<'_>) {
        let mut scratch = Scratch::default();
        let output = match GsoOutput::of(frame, &self.accepts, &mut scratch) {
            Ok(output) => output,
            Err(reason) => return self.counters.dropped(reason, 1),
        };
        for index in 0..output.count() {
            if let Err(reason) = self.put(&output, index) {
                self.counters.dropped(reason, 1);
            }
        }
    }
}

impl Sink for Transmit {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        if let Err(error) = self.reclaim() {
            self.counters.dropped(DropReason::MalformedRing, which.len() as u64);
            return Err(error.into());
        }
        let images = batch.images();
        if images.is_none() {
            self.buffer_images.forget();
        }
        for &index in which {
            let frame = batch.frame(index.into());
            if !self.put_plain(&frame, images) {
                self.deliver(frame);
            }
        }
        self.add_singles();
        if self.queue.needs_kick() {
            self.kick.notify();
            self.counters.notified();
        }
        Ok(())
    }

    fn room(&mut self) -> usize {
        // The next `accept` reports a malformed ring.
        let _ = self.reclaim();
        self.pool.free.len()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
