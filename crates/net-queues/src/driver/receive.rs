//! A source over a driver's receiveq: frames that the device sends.
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use frame::{DropReason, FrameBatch, QueueCounters, QueueError, Source};
use memory::{Access, AddressSpace, SharedSlice, Translator};
use vhost_device::EventFd;
use virtio::net::HeaderLayout;
use virtqueue::{Buffer, Direction, DriverQueue, RingError, Used};

use super::{Buffers, LONGEST_BYTES};

/// Where `num_buffers` lies in the net header (VIRTIO 1.3 §5.1.6).
const NUM_BUFFERS_AT: usize = 10;

/// Buffers of this process that the device fills. Frames are passed on in these buffers, which are posted again when
/// the frames are released.
pub struct Receive {
    queue: Box<dyn DriverQueue>,
    kick: EventFd,
    call: EventFd,
    buffers: Buffers,
    translator: Translator,
    /// Whether a frame may span several buffers (MRG_RXBUF).
    mergeable: bool,
    /// Buffers that the device has used. Those from `next` on are not processed yet.
    used: Vec<Used>,
    next: usize,
    batch: FrameBatch,
    /// Buffers that are in the batch, or that held no valid frame.
    to_post: Vec<Buffer>,
    counters: Arc<QueueCounters>,
}

impl Receive {
    /// A source over a fresh queue. Posts all buffers.
    pub fn new(
        mut queue: Box<dyn DriverQueue>,
        kick: EventFd,
        call: EventFd,
        buffers: Buffers,
        space: &Arc<AddressSpace>,
        mergeable: bool,
        counters: Arc<QueueCounters>,
    ) -> Self {
        queue.disable_calls();
        let count = usize::from(buffers.count());
        let to_post = (0..buffers.count()).map(|i| posted(&buffers, i)).collect();
        let mut receive = Receive {
            queue,
            kick,
            call,
            buffers,
            translator: Translator::new(Arc::clone(space)),
            mergeable,
            used: Vec::with_capacity(count),
            next: 0,
            batch: FrameBatch::of_memory(count),
            to_post,
            counters,
        };
        receive.release();
        receive
    }

    /// The capacities of the vectors, for tests that check that nothing allocates.
    #[cfg(test)]
    pub fn capacity(&self) -> [usize; 2] {
        [self.used.capacity(), self.to_post.capacity()]
    }

    /// Reclaims used buffers until at least `wanted` are known, if there are that many.
    #[inline(always)]
    fn reclaim(&mut self, wanted: usize) -> Result<(), RingError> {
        let waiting = self.used.len() - self.next;
        if waiting < wanted {
            // Usually all of them: some stay if a frame had more than the burst had room for.
            self.used.drain(..self.next);
            self.next = 0;
            self.queue.reclaim(&mut self.used, wanted - waiting)?;
        }
        Ok(())
    }

    /// Lends up to `max` used buffers that contain one whole frame each, as nearly all do.
    #[inline(always)]
    fn push_singles(&mut self, max: usize) {
        let Some(arena) = self.batch.arena_mut() else { return };
        let from = arena.len();
        let mut builder = self.translator.builder(arena);
        for &Used { cookie, written } in self.used[self.next..].iter().take(max) {
            let index = cookie as u16;
            let slice = self.buffers.slice(index);
            // The device's core has just written to this buffer: its lines are far away. Used when the whole
            // burst is in the batch: meanwhile all of them are on their way.
            slice.prefetch(Access::Read);
            let is_single = !self.mergeable || num_buffers(slice) == 1;
            if !is_single || (written as usize) < HeaderLayout::Full.bytes() {
                break;
            }
            let buffer = posted(&self.buffers, index);
            // Our own memory, which is contiguous, and the ring has checked the length: nothing can go wrong.
            let _ = builder.push(buffer.address, written, Access::Read);
            self.to_post.push(buffer);
            self.next += 1;
        }
        let counters = &self.counters;
        let end =
            self.batch.push_each_with_room(from, HeaderLayout::Full, |reason| counters.dropped(reason, 1));
        // Frames that would make too many segments come with the next burst.
        if let Some(arena) = self.batch.arena_mut()
            && arena.len() > end
        {
            let rest = (arena.len() - end) as usize;
            arena.truncate(end);
            self.to_post.truncate(self.to_post.len() - rest);
            self.next -= rest;
        }
    }

    /// Lends the frame that begins with the next used buffer, in the general case.
    #[cold]
    #[inline(never)]
    fn push_next(&mut self) -> Result<(), QueueError> {
        let first = self.used[self.next];
        let buffers = if self.mergeable { self.buffers_of(first) } else { Ok(1) };
        let from = self.batch.arena_mut().map_or(0, |arena| arena.len());
        let mut outcome = Ok(());
        match buffers {
            Ok(1) => self.push_buffer(),
            Ok(count) => outcome = self.push_several(count)?,
            Err(reason) => {
                // Whatever the other buffers contain, this one begins no frame.
                self.push_buffer();
                outcome = Err(reason);
            }
        }
        if let Err(reason) = outcome.and_then(|()| self.batch.push(from, HeaderLayout::Full)) {
            self.counters.dropped(reason, 1);
        }
        Ok(())
    }

    /// The number of buffers of a frame that may have several. The device wrote the number; it is refused if it exceeds
    /// the number that the frame's length needs, or the number of used buffers.
    fn buffers_of(&self, first: Used) -> Result<usize, DropReason> {
        if (first.written as usize) < HeaderLayout::Full.bytes() {
            return Err(DropReason::TooShort);
        }
        let count = usize::from(num_buffers(self.buffers.slice(first.cookie as u16)));
        let most = (LONGEST_BYTES.div_ceil(self.buffers.bytes()) as usize).min(self.buffers.count().into());
        if (1..=most).contains(&count) { Ok(count) } else { Err(DropReason::MalformedHeader) }
    }

    /// Lends the buffers of one frame. The device uses them together (VIRTIO 1.3 §5.1.6.4.1): when it shows
    /// the first, all of them are there.
    #[cold]
    #[inline(never)]
    fn push_several(&mut self, count: usize) -> Result<Result<(), DropReason>, RingError> {
        self.reclaim(count)?;
        let there = count.min(self.used.len() - self.next);
        (0..there).for_each(|_| self.push_buffer());
        Ok(if there == count { Ok(()) } else { Err(DropReason::MalformedHeader) })
    }

    /// Lends the written bytes of the next used buffer.
    #[inline(always)]
    fn push_buffer(&mut self) {
        let Used { cookie, written } = self.used[self.next];
        self.next += 1;
        let buffer = posted(&self.buffers, cookie as u16);
        if let Some(arena) = self.batch.arena_mut() {
            // Our own memory, and the ring has checked the length: there is nothing to go wrong.
            let _ = self.translator.builder(arena).push(buffer.address, written, Access::Read);
        }
        self.to_post.push(buffer);
    }
}

/// The number of buffers in the net header of a filled buffer; the device may change it at any time.
#[inline(always)]
fn num_buffers(buffer: SharedSlice<'_>) -> u16 {
    let mut field = [0; 2];
    buffer.read_array(NUM_BUFFERS_AT, &mut field);
    u16::from_le_bytes(field)
}

/// A whole buffer, as it is posted.
#[inline(always)]
fn posted(buffers: &Buffers, index: u16) -> Buffer {
    Buffer { address: buffers.address(index), len: buffers.bytes(), cookie: index.into() }
}

impl Source for Receive {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        self.reclaim(max)?;
        self.push_singles(max);
        while self.next < self.used.len() && self.batch.len() < max && !self.batch.is_full() {
            self.push_next()?;
            self.push_singles(max - self.batch.len());
        }
        let bytes = self.batch.frames().map(|frame| frame.len_bytes() as u64).sum();
        self.counters.passed(self.batch.len() as u64, bytes);
        Ok(&self.batch)
    }

    #[inline]
    fn needs_release(&self) -> bool {
        !self.to_post.is_empty()
    }

    fn release(&mut self) {
        self.batch.clear();
        // Every buffer fits: there are no more buffers than descriptors.
        self.queue.add(&self.to_post, Direction::FromDevice);
        self.to_post.clear();
        if self.queue.needs_kick() {
            self.kick.notify();
            self.counters.notified();
        }
    }

    fn sleep(&mut self) -> bool {
        let there = self.next < self.used.len() || self.queue.enable_calls();
        if there {
            self.queue.disable_calls();
        }
        there
    }

    fn wake(&mut self) {
        self.queue.disable_calls();
        self.call.drain();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.call.as_fd())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
