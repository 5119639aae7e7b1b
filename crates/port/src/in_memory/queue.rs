//! The ring as sink and source.
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use frame::{DropReason, Frame, FrameBatch, QueueCounters, QueueError, Sink, Source};
use virtio::net::Accepts;

use super::ring::{Consumer, LAYOUT, Producer, ring};
use net_queues::cache_policy::Temporal;
use net_queues::deliver::{GsoOutput, Scratch, write_plain};

/// The options of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// The number of frames that the queue holds, rounded up to a power of two.
    pub slots: u16,
    /// Longest frame in bytes, without net header.
    pub frame_bytes: u32,
    /// Offloads that the receiving side accepts unfinished.
    pub accepts: Accepts,
}

impl Default for QueueOptions {
    /// 256 frames of up to 64 KiB, any offload.
    fn default() -> Self {
        let accepts = Accepts {
            checksum: true,
            tcp_v4: true,
            tcp_v6: true,
            ecn: true,
            udp_fragments: true,
            udp_segments: true,
        };
        QueueOptions { slots: 256, frame_bytes: frame::LARGEST_FRAME_BYTES as u32, accepts }
    }
}

/// A queue: its source receives the frames that its sink accepts.
///
/// # Errors
/// The memory file cannot be made or mapped, or `eventfd` is refused, for example at the open-files limit.
pub fn queue(options: QueueOptions) -> io::Result<(InMemorySink, InMemorySource)> {
    let (producer, consumer) = ring(options.slots, options.frame_bytes)?;
    let sink = InMemorySink { producer, accepts: options.accepts, counters: Arc::default() };
    let batch = FrameBatch::of_memory(usize::from(options.slots).next_power_of_two());
    let source = InMemorySource { consumer, batch, needs_release: false, counters: Arc::default() };
    Ok((sink, source))
}

/// The producer's end of a queue.
#[derive(Debug)]
pub struct InMemorySink {
    pub(super) producer: Producer,
    accepts: Accepts,
    counters: Arc<QueueCounters>,
}

/// The consumer's end of a queue.
#[derive(Debug)]
pub struct InMemorySource {
    pub(super) consumer: Consumer,
    batch: FrameBatch,
    needs_release: bool,
    counters: Arc<QueueCounters>,
}

impl InMemorySink {
    /// The queue with other counters: it counts on `counters` from now on.
    #[must_use]
    pub fn counting(self, counters: Arc<QueueCounters>) -> Self {
        InMemorySink { counters, ..self }
    }

    /// Puts a frame that needs no processing into the next slot, as nearly all do. False, and nothing has happened, if
    /// it takes more than that.
    #[inline(always)]
    fn accept_plain(&mut self, frame: &Frame<'_>) -> bool {
        let written = self.producer.free().and_then(|slot| write_plain(Temporal, frame, slot, LAYOUT, 1));
        written.map(|written| self.producer.fill(written)).is_some()
    }

    #[inline(never)]
    fn accept_one(&mut self, frame: Frame<'_>, scratch: &mut Scratch) {
        let output = match GsoOutput::of(frame, &self.accepts, scratch) {
            Ok(output) => output,
            Err(reason) => return self.counters.dropped(reason, 1),
        };
        for index in 0..output.count() {
            let bytes = output.len_bytes(index);
            if bytes + LAYOUT.bytes() > self.producer.slot_bytes() {
                self.counters.dropped(DropReason::NoBufferLargeEnough, 1);
                continue;
            }
            let Some(slot) = self.producer.free() else {
                self.counters.dropped(DropReason::ReceiverFull, 1);
                continue;
            };
            let written = output.write(index, &[slot], LAYOUT, 1);
            self.producer.fill(written);
            self.counters.passed(1, bytes as u64);
        }
    }
}

impl Sink for InMemorySink {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        let mut scratch = Scratch::default();
        let (mut frames, mut bytes) = (0, 0);
        for index in which {
            let frame = batch.frame(usize::from(*index));
            if self.accept_plain(&frame) {
                frames += 1;
                bytes += frame.len_bytes() as u64;
            } else {
                self.accept_one(frame, &mut scratch);
            }
        }
        self.counters.passed(frames, bytes);
        if self.producer.publish() {
            self.counters.notified();
        }
        Ok(())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}

impl InMemorySource {
    /// The queue with other counters: it counts on `counters` from now on.
    #[must_use]
    pub fn counting(self, counters: Arc<QueueCounters>) -> Self {
        InMemorySource { counters, ..self }
    }

    /// The frames of the last burst, for a source around this one that takes off what was put in front of them.
    pub fn frames_mut(&mut self) -> &mut FrameBatch {
        &mut self.batch
    }
}

impl Source for InMemorySource {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        debug_assert!(!self.needs_release, "the batch before is released first");
        let there = self.consumer.available().min(max as u64);
        if let Some(arena) = self.batch.arena_mut() {
            let first = arena.len();
            (0..there).for_each(|_| self.consumer.take(arena));
            let counters = &self.counters;
            self.batch.push_each(first, LAYOUT, |reason| counters.dropped(reason, 1));
        }
        self.needs_release = there > 0;
        if self.needs_release {
            let bytes = self.batch.frames().map(|frame| frame.len_bytes() as u64).sum();
            self.counters.passed(self.batch.len() as u64, bytes);
        }
        Ok(&self.batch)
    }

    fn needs_release(&self) -> bool {
        self.needs_release
    }

    fn release(&mut self) {
        self.batch.clear();
        self.consumer.empty();
        self.needs_release = false;
    }

    fn sleep(&mut self) -> bool {
        self.consumer.sleep()
    }

    fn wake(&mut self) {
        self.consumer.wake();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.consumer.call().as_fd())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
