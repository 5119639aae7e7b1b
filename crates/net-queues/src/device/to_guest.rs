//! Frames to a guest: the device half of a receiveq.
mod merged;
mod options;
mod room;
mod settings;
mod tally;

use std::sync::Arc;

use deliveries::ReceiverLog;
use frame::{DropReason, Frame, FrameBatch, QueueCounters, QueueError, RingState, Sink};
use virtio::net::control::ReceiveFilter;
use virtqueue::{Burst, ChainRef, DeviceQueue, PopError, RingError};

pub use self::options::ToGuestOptions;
use self::tally::{Tally, undelivered};
use crate::cache_policy::{CachePolicy, CopyPolicy, CopyTuner, DemotionTuner, Stores, Temporal};
use crate::deliver::{GsoOutput, Scratch, write_plain};
use crate::device::{EventFd, StoppedAt, notify_if};

/// The most chains that are held at once, and so the most over which one frame is spread: 64 KiB in mergeable buffers
/// of 128 bytes, a twelfth of the least size in VIRTIO 1.3 §5.1.6.3.1.
const MAX_CHAINS: usize = 512;

/// The most work of the chains of one call ([`Burst::work`]); the last chains add at most a few thousand. The
/// receiver's driver chooses how finely it splits its buffers, and it is all ports that wait. 256 frames in chains of
/// 20 descriptors are a third of it.
const MAX_WORK: u32 = 32_768;

/// Frames to a guest's receiveq, copied directly into the buffers that its driver posted.
#[repr(align(128))] // lines of its own: workers write to neighbouring queues
pub struct ToGuest {
    queue: Box<dyn DeviceQueue>,
    options: ToGuestOptions,
    /// The popped chains. Between two calls it has only chains that were popped to count the room.
    burst: Burst,
    /// The first chain of the burst that has no frame yet.
    next: usize,
    /// Chains of this call that no frame can use.
    unusable: usize,
    /// The cost of the burst's chains before this call.
    work_before: u32,
    /// Why no more chains are available in this call.
    dry: Option<DropReason>,
    broken: Option<RingError>,
    /// Keeps the position at which the queue has stopped by itself.
    pub(super) stopped_at: Arc<StoppedAt>,
    enabled: bool,
    filter: Option<Box<ReceiveFilter>>,
    /// The log of deliveries to this queue.
    log: Option<ReceiverLog>,
    cache_policy: CachePolicy,
    copy_tuner: CopyTuner,
    demotion_tuner: DemotionTuner,
    call: Option<EventFd>,
    counters: Arc<QueueCounters>,
}

impl ToGuest {
    /// A sink over a running queue. Without `call` the driver polls.
    pub fn new(
        mut queue: Box<dyn DeviceQueue>,
        options: ToGuestOptions,
        call: Option<EventFd>,
        enabled: bool,
        counters: Arc<QueueCounters>,
    ) -> Self {
        // No thread ever waits for a receiver's buffers.
        queue.disable_kicks();
        let cache_policy = CachePolicy::Auto;
        ToGuest {
            options,
            burst: Burst::new(MAX_CHAINS),
            next: 0,
            unusable: 0,
            work_before: 0,
            dry: None,
            broken: None,
            stopped_at: Arc::default(),
            enabled,
            filter: None,
            log: None,
            cache_policy,
            copy_tuner: cache_policy.copy_tuner(),
            demotion_tuner: cache_policy.demotion_tuner(&*queue),
            call,
            counters,
            queue,
        }
    }

    /// Delivers frames that need one chain each and no processing, as nearly all do. Returns their number: it stops at
    /// the first other frame, or if no chain is at hand.
    #[inline(always)]
    fn deliver_plain(&mut self, batch: &FrameBatch, which: &[u16], tally: &mut Tally<'_>) -> usize {
        if self.filter.is_some() || self.next == self.burst.len() {
            return 0;
        }
        match self.copy_tuner.policy() {
            CopyPolicy::Temporal => self.fill_plain(Temporal, batch, which, tally),
            CopyPolicy::NonTemporal(stores) => self.fill_non_temporal(stores, batch, which, tally),
        }
    }

    #[inline(never)] // the code for nearly all frames is not to be longer for it
    fn fill_non_temporal(
        &mut self,
        stores: impl Stores,
        batch: &FrameBatch,
        which: &[u16],
        tally: &mut Tally<'_>,
    ) -> usize {
        self.fill_plain(stores, batch, which, tally)
    }

    #[inline(always)]
    fn fill_plain(
        &mut self,
        stores: impl Stores,
        batch: &FrameBatch,
        which: &[u16],
        tally: &mut Tally<'_>,
    ) -> usize {
        let max = self.options.max_frame_bytes.unwrap_or(u32::MAX) as usize;
        let layout = self.options.layout;
        let mut frames = which.iter().map(|index| batch.frame(usize::from(*index)));
        let mut bytes = 0;
        let delivered = self.burst.fill_singles(self.next, |to| {
            let frame = frames.next().filter(|frame| frame.len_bytes() <= max)?;
            let written = write_plain(stores, &frame, to, layout, 1)?;
            bytes += written;
            Some(written as u32)
        });
        stores.finish();
        self.next += delivered;
        tally.frames += delivered as u64;
        tally.bytes += (bytes - delivered * layout.bytes()) as u64;
        delivered
    }

    /// Delivers one frame, or its segments.
    #[inline(never)]
    fn deliver(&mut self, frame: Frame<'_>, frames_left: usize, tally: &mut Tally<'_>) {
        if self.filter.as_ref().is_some_and(|filter| !filter.accepts(frame.snapshot())) {
            return self.counters.dropped(DropReason::Filtered, 1);
        }
        let mut scratch = Scratch::default();
        let output = match GsoOutput::of(frame, &self.options.accepts, &mut scratch) {
            Ok(output) => output,
            Err(reason) => return self.counters.dropped(reason, 1),
        };
        let header_bytes = self.options.layout.bytes();
        for index in 0..output.count() {
            let len_bytes = output.len_bytes(index);
            let is_too_long = self.options.max_frame_bytes.is_some_and(|max| {
                // The receiver cuts it itself.
                let is_uncut =
                    matches!(output, GsoOutput::AsIs(..)) && frame.offload().segmentation.is_some();
                len_bytes > max as usize && !is_uncut
            });
            let room = match is_too_long {
                false => {
                    let wanted = frames_left + output.count() - index - 1;
                    self.room_for(header_bytes + len_bytes, wanted, tally)
                }
                true => Err(DropReason::TooLong),
            };
            let chains = match room {
                Ok(chains) => chains,
                // A reason that holds for the first segment holds for the others; a frame may have very many.
                Err(reason) => return self.counters.dropped_from(reason, index, output.count()),
            };
            self.fill(&output, index, chains);
            tally.frames += 1;
            tally.bytes += len_bytes as u64;
        }
    }

    /// Writes an output to the next `chains` chains.
    #[inline(always)]
    fn fill(&mut self, output: &GsoOutput<'_>, index: usize, chains: usize) {
        let (layout, first) = (self.options.layout, self.next);
        self.next += chains;
        if chains == 1 {
            let written = output.write(index, self.burst.chain(first).writable(), layout, 1);
            return self.burst.set_written(first, written as u32);
        }
        // Chains without readable part lie one behind the other in the arena, so they are one list.
        let last = self.burst.chain(self.next - 1);
        let start = self.burst.chain(first).readable_range().1;
        let end = last.readable_range().1 + last.writable().len() as u32;
        let slices = self.burst.arena().slices(start..end);
        let mut left = output.write(index, slices, layout, chains as u16) as u32;
        for chain in first..self.next {
            let here = left.min(self.burst.chain(chain).writable_bytes());
            self.burst.set_written(chain, here);
            left -= here;
        }
    }

    /// Finds chains for `bytes` bytes, from `next` on; returns their number. `wanted` more may be of use soon.
    #[inline(always)]
    fn room_for(&mut self, bytes: usize, wanted: usize, tally: &mut Tally<'_>) -> Result<usize, DropReason> {
        loop {
            if self.next == self.burst.len() {
                self.pop_more(wanted, tally)?;
            }
            let chain = self.burst.chain(self.next);
            if !self.usable(chain) {
                self.pass_over(1)?;
                continue;
            }
            if chain.writable_bytes() as usize >= bytes {
                return Ok(1);
            }
            if !self.options.mergeable {
                return Err(DropReason::NoBufferLargeEnough);
            }
            return self.merged_room_for(bytes, wanted, tally);
        }
    }

    /// Whether a frame can begin in this chain: §5.1.6.3.1 wants writable buffers that hold the header.
    #[inline(always)]
    fn usable(&self, chain: ChainRef<'_>) -> bool {
        let (first, first_writable) = chain.readable_range();
        first == first_writable && chain.writable_bytes() as usize >= self.options.layout.bytes()
    }

    #[inline]
    fn pop(&mut self, max: usize) -> Result<usize, PopError> {
        let popped = self.queue.pop(&mut self.burst, max)?;
        self.demotion_tuner.polled(popped);
        self.burst.set_descriptor_demotion(self.demotion_tuner.descriptors());
        Ok(popped)
    }

    /// Pops about `chains` more chains. If the burst is full, chains with frames are given back first, and chains
    /// without are rewound and popped again: `next` is then 0.
    fn pop_more(&mut self, chains: usize, tally: &mut Tally<'_>) -> Result<(), DropReason> {
        if let Some(reason) = self.dry {
            return Err(reason);
        }
        if self.burst.work().wrapping_sub(self.work_before) > MAX_WORK {
            self.dry = Some(DropReason::NoBufferLargeEnough);
            return Err(DropReason::NoBufferLargeEnough);
        }
        if self.burst.len() == self.burst.capacity() {
            self.give_back(tally);
        }
        let error = match self.pop(chains.max(1)) {
            Ok(0) => DropReason::ReceiverFull,
            Ok(_) => return Ok(()),
            // ACCESS_PLATFORM is not offered, so there is no translation to wait for.
            Err(PopError::Miss { .. }) => DropReason::ReceiverFull,
            Err(PopError::Malformed(error)) => {
                self.broken = Some(error);
                DropReason::MalformedRing
            }
        };
        self.dry = Some(error);
        Err(error)
    }

    /// Gives the chains before `next` back as used and rewinds the others.
    #[inline(always)]
    fn give_back(&mut self, tally: &mut Tally<'_>) {
        if self.next > 0 {
            tally.publish(self.log.as_ref(), || self.queue.position());
        }
        self.queue.add_used(&mut self.burst, 0..self.next);
        if self.next < self.burst.len() {
            self.queue.rewind(&mut self.burst, self.next);
            // If that is refused, no frame is lost: the driver gets the chains unwritten.
            self.queue.add_used_all(&mut self.burst);
        }
        self.burst.clear();
        self.next = 0;
    }
}

impl Sink for ToGuest {
    #[inline]
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        if !self.enabled || self.broken.is_some() {
            let reason = if self.enabled { DropReason::MalformedRing } else { DropReason::Disabled };
            self.counters.dropped(reason, which.len() as u64);
            return Ok(());
        }
        (self.dry, self.unusable, self.work_before) = (None, 0, self.burst.work());
        let compared = self.copy_tuner.begin();
        let log = batch.sender_log();
        let which = &*undelivered(log, self.log.as_ref(), which, &self.counters);
        let mut tally = Tally::new(log, which);
        let mut left = which;
        loop {
            left = &left[self.deliver_plain(batch, left, &mut tally)..];
            tally.done = which.len() - left.len();
            // The next frame needs the general path, or more chains must be popped first.
            let Some((&index, rest)) = left.split_first() else { break };
            self.deliver(batch.frame(index.into()), left.len(), &mut tally);
            left = rest;
            tally.done += 1;
        }
        self.give_back(&mut tally);
        self.counters.passed(tally.frames, tally.bytes);
        let call = self.call.as_ref().map(|call| (call, self.queue.needs_call()));
        if let Some(begun) = compared {
            self.copy_tuner.end(begun, tally.frames, tally.bytes);
        }
        if let Some((call, wanted)) = call.filter(|(_, wanted)| *wanted || tally.frames > 0) {
            notify_if(call, wanted, &self.counters);
        }
        let Some(error) = self.broken else { return Ok(()) };
        self.stopped_at.set(self.queue.position());
        Err(error.into())
    }

    fn room(&mut self) -> usize {
        self.room_left()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }

    fn ring(&self) -> Option<RingState> {
        let ring = RingState::of(&*self.queue, self.enabled);
        // Chains that were popped to count the room wait as well.
        Some(RingState { available: ring.available.saturating_add(self.burst.len() as u16), ..ring })
    }
}
