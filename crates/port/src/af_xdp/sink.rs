//! Frames to the interface: one copy into the registered memory.
use std::sync::Arc;

use frame::{DropReason, Frame, FrameBatch, OwnMemory, QueueCounters, QueueError, Sink};
use memory::SharedSlice;
use virtio::net::{Accepts, HeaderLayout};

use super::ring::{ADDRESS_WORDS, Consumer, DESCRIPTOR_WORDS, Producer, length_word};
use super::socket::{Sizes, Socket};
use net_queues::cache_policy::Temporal;
use net_queues::deliver::{GsoOutput, Scratch, write_plain};

/// Copies begin with a net header, which stays behind: the descriptor names what follows it.
const LAYOUT: HeaderLayout = HeaderLayout::Full;
/// The offset of a frame in its chunk: the start of a cache line.
const FRAME_AT: usize = 64;

#[derive(Debug)]
pub(super) struct AfXdpSink {
    socket: Arc<Socket>,
    memory: Arc<OwnMemory>,
    to_send: Producer<DESCRIPTOR_WORDS>,
    completed: Consumer<ADDRESS_WORDS>,
    chunk_bytes: usize,
    /// Offsets of chunks that the kernel no longer uses.
    free: Vec<u64>,
    counters: Arc<QueueCounters>,
}

impl AfXdpSink {
    pub fn new(
        socket: Arc<Socket>,
        memory: Arc<OwnMemory>,
        to_send: Producer<DESCRIPTOR_WORDS>,
        completed: Consumer<ADDRESS_WORDS>,
        sizes: Sizes,
        counters: Arc<QueueCounters>,
    ) -> Self {
        let Sizes { ring, chunk_bytes } = sizes;
        let chunks = (ring..2 * ring).rev();
        AfXdpSink {
            socket,
            memory,
            to_send,
            completed,
            chunk_bytes: chunk_bytes as usize,
            free: chunks.map(|chunk| u64::from(chunk) * u64::from(chunk_bytes)).collect(),
            counters,
        }
    }

    /// Takes back the chunks of sent frames.
    #[inline]
    fn reclaim(&mut self) {
        let chunk = self.chunk_bytes as u64;
        let there = self.completed.available();
        for _ in 0..there {
            let [address] = self.completed.take();
            self.free.push(address / chunk * chunk);
        }
        if there > 0 {
            self.completed.release();
        }
    }

    /// A chunk's offset, and where net header and frame go in it.
    #[inline]
    fn chunk(&self) -> Option<(u64, SharedSlice<'_>)> {
        let chunk = *self.free.last()?;
        let before = FRAME_AT - LAYOUT.bytes();
        Some((chunk, self.memory.slice(chunk as usize + before, self.chunk_bytes - before)))
    }

    /// Gives the chunk of [`AfXdpSink::chunk`] to the kernel, with net header and frame in `written` bytes.
    #[inline]
    fn put(&mut self, chunk: u64, written: usize) {
        self.free.pop();
        let frame = (written - LAYOUT.bytes()) as u32;
        self.to_send.put([chunk + FRAME_AT as u64, length_word(frame)]);
    }

    /// Sends a frame that needs no processing, as nearly all do. False, and nothing has happened, if it takes more than
    /// that.
    #[inline(always)]
    fn accept_plain(&mut self, frame: &Frame<'_>) -> bool {
        let Some((chunk, to)) = self.chunk() else { return false };
        match write_plain(Temporal, frame, to, LAYOUT, 1) {
            Some(written) => self.put(chunk, written),
            None => return false,
        }
        true
    }

    #[inline(never)]
    fn accept_one(&mut self, frame: Frame<'_>, scratch: &mut Scratch) {
        let output = match GsoOutput::of(frame, &Accepts::NOTHING, scratch) {
            Ok(output) => output,
            Err(reason) => return self.counters.dropped(reason, 1),
        };
        for index in 0..output.count() {
            let bytes = output.len_bytes(index);
            let Some((chunk, to)) = self.chunk() else {
                self.counters.dropped(DropReason::ReceiverFull, 1);
                continue;
            };
            if bytes + LAYOUT.bytes() > to.len_bytes() {
                self.counters.dropped(DropReason::NoBufferLargeEnough, 1);
                continue;
            }
            let written = output.write(index, &[to], LAYOUT, 1);
            self.put(chunk, written);
            self.counters.passed(1, bytes as u64);
        }
    }
}

impl Sink for AfXdpSink {
    fn accept(&mut self, batch: &FrameBatch, which: &[u16]) -> Result<(), QueueError> {
        self.reclaim();
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
        self.to_send.publish();
        if self.to_send.ring().needs_wakeup() {
            self.counters.notified();
            self.socket.send();
        }
        Ok(())
    }

    fn room(&mut self) -> usize {
        self.reclaim();
        self.free.len()
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
