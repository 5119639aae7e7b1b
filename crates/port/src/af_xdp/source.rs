//! Frames from the interface, borrowed in memory that the kernel or the card filled.
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use frame::{FrameBatch, OwnMemory, OwnSgBuilder, QueueCounters, QueueError, Source};

use super::ring::{ADDRESS_WORDS, Consumer, DESCRIPTOR_WORDS, Producer, length_of};
use super::socket::Socket;

/// The most frames of one batch.
const BURST: usize = 64;
/// The most consecutive polls that wake the kernel for frames that it has not sent yet; afterwards the wake-up waits
/// for the next frame.
const TELLINGS: u32 = 10_000;

#[derive(Debug)]
pub(super) struct AfXdpSource {
    socket: Arc<Socket>,
    received: Consumer<DESCRIPTOR_WORDS>,
    fill: Producer<ADDRESS_WORDS>,
    builder: OwnSgBuilder,
    batch: FrameBatch,
    /// Chunks of the batch, to be given to the kernel again.
    lent: Vec<u64>,
    tellings: u32,
    counters: Arc<QueueCounters>,
}

impl AfXdpSource {
    pub fn new(
        socket: Arc<Socket>,
        memory: &OwnMemory,
        received: Consumer<DESCRIPTOR_WORDS>,
        fill: Producer<ADDRESS_WORDS>,
        counters: Arc<QueueCounters>,
    ) -> Self {
        AfXdpSource {
            socket,
            received,
            fill,
            builder: memory.sg_builder(),
            batch: FrameBatch::of_memory(BURST),
            lent: Vec::with_capacity(BURST),
            tellings: 0,
            counters,
        }
    }

    /// Tells the kernel again to send frames that it did not send at once: the sending thread may have no more
    /// frames.
    #[cold]
    fn send_again(&mut self) {
        self.socket.send();
        self.tellings = if self.socket.unsent().any() { self.tellings + 1 } else { 0 };
        if self.tellings == TELLINGS {
            self.tellings = 0;
            self.socket.unsent().clear();
        }
    }
}

impl Source for AfXdpSource {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        debug_assert!(self.lent.is_empty(), "the batch before is released first");
        if self.socket.unsent().any() {
            self.send_again();
        }
        let mut there = self.received.available();
        if there == 0 && self.socket.busy_polls() {
            self.socket.receive();
            there = self.received.available();
        }
        let Some(arena) = self.batch.arena_mut() else { return Ok(&self.batch) };
        let first = arena.len();
        let mut bytes = 0;
        for _ in 0..(there as usize).min(max).min(BURST) {
            let [address, length] = self.received.take();
            self.builder.push(arena, address, length_of(length));
            bytes += u64::from(length_of(length));
            self.lent.push(address);
        }
        if !self.lent.is_empty() {
            self.received.release();
            let (counters, mut refused) = (&self.counters, 0);
            self.batch.push_each_complete(first, |reason| {
                refused += 1;
                counters.dropped(reason, 1);
            });
            if refused > 0 {
                bytes = self.batch.frames().map(|frame| frame.len_bytes() as u64).sum();
            }
            counters.passed(self.batch.len() as u64, bytes);
        }
        Ok(&self.batch)
    }

    fn needs_release(&self) -> bool {
        !self.lent.is_empty()
    }

    fn release(&mut self) {
        self.batch.clear();
        // There are as many chunks as the ring has entries, so all have room.
        for address in self.lent.drain(..) {
            self.fill.put([address]);
        }
        self.fill.publish();
        if self.fill.ring().needs_wakeup() {
            self.socket.receive();
        }
    }

    fn sleep(&mut self) -> bool {
        self.socket.unsent().arm() || self.received.available() > 0
    }

    fn wake(&mut self) {
        self.socket.unsent().disarm();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.unsent().wake_fd())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
