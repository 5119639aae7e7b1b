//! The ring: slots, two positions, and whether the consumer sleeps.
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use memory::{SgArena, SharedSlice};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use virtio::net::HeaderLayout;

use frame::{OwnMemory, OwnSgBuilder};

/// The layout of the net header at the start of each slot.
pub(super) const LAYOUT: HeaderLayout = HeaderLayout::Full;

/// Two cache lines: processors fetch lines in pairs, and the two sides must not share any.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// The state that both sides share. Positions count up for ever; a slot is a position's low bits.
#[derive(Debug)]
struct Ring {
    memory: OwnMemory,
    /// Bytes of net header and frame in each slot. Published by `filled`.
    lengths: Box<[AtomicU32]>,
    slot_bytes: usize,
    /// The number of slots filled since the start. Written by the producer.
    filled: Apart<AtomicU64>,
    /// The number of slots emptied since the start. Written by the consumer.
    emptied: Apart<AtomicU64>,
    /// The consumer waits for `call`.
    sleeping: Apart<AtomicBool>,
    call: OwnedFd,
}

impl Ring {
    fn slot(&self, position: u64) -> usize {
        position as usize & (self.lengths.len() - 1)
    }
}

/// The side that fills slots.
#[derive(Debug)]
pub(super) struct Producer {
    ring: Arc<Ring>,
    /// The number of slots filled, including unpublished ones.
    filled: u64,
    /// `emptied` when it was last read.
    emptied: u64,
}

/// The side that empties slots.
#[derive(Debug)]
pub(super) struct Consumer {
    ring: Arc<Ring>,
    builder: OwnSgBuilder,
    /// The number of slots taken, including those not emptied yet.
    taken: u64,
    /// `filled` when it was last read.
    filled: u64,
}

/// A ring of `slots` (rounded up to a power of two) for frames of at most `frame_bytes`.
pub(super) fn ring(slots: u16, frame_bytes: u32) -> io::Result<(Producer, Consumer)> {
    let slots = usize::from(slots.max(1)).next_power_of_two();
    // Whole cache lines, an odd number of them: else the starts of all slots compete for the same sets.
    let lines = (frame_bytes as usize + LAYOUT.bytes()).div_ceil(64) | 1;
    let refused = |call: &str, error: io::Error| io::Error::new(error.kind(), format!("{call}: {error}"));
    let memory = OwnMemory::new(c"tautline-in-memory", (slots * lines * 64) as u64)
        .map_err(|error| refused("memory for the slots", error))?;
    let builder = memory.sg_builder();
    let ring = Arc::new(Ring {
        memory,
        lengths: (0..slots).map(|_| AtomicU32::new(0)).collect(),
        slot_bytes: lines * 64,
        filled: Apart::default(),
        emptied: Apart::default(),
        sleeping: Apart::default(),
        call: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| refused("eventfd", error.into()))?,
    });
    let producer = Producer { ring: Arc::clone(&ring), filled: 0, emptied: 0 };
    Ok((producer, Consumer { ring, builder, taken: 0, filled: 0 }))
}

impl Producer {
    /// Bytes of net header and frame that a slot holds.
    pub fn slot_bytes(&self) -> usize {
        self.ring.slot_bytes
    }

    /// The next free slot; `None` if all are filled.
    #[inline]
    pub fn free(&mut self) -> Option<SharedSlice<'_>> {
        let slots = self.ring.lengths.len() as u64;
        if self.filled - self.emptied == slots {
            // Acquire: pairs with the release in `Consumer::empty`; the consumer has done with the bytes.
            self.emptied = self.ring.emptied.0.load(Ordering::Acquire);
        }
        let free = self.filled - self.emptied < slots;
        let at = self.ring.slot(self.filled) * self.ring.slot_bytes;
        free.then(|| self.ring.memory.slice(at, self.ring.slot_bytes))
    }

    /// Notes that the slot from [`Producer::free`] now holds this many bytes.
    #[inline]
    pub fn fill(&mut self, bytes: usize) {
        self.ring.lengths[self.ring.slot(self.filled)].store(bytes as u32, Ordering::Relaxed);
        self.filled += 1;
    }

    /// Publishes the filled slots. Returns true if the consumer had to be woken.
    #[inline]
    pub fn publish(&self) -> bool {
        // Release pairs with the acquire in `Consumer::available`: a consumer that sees the position sees the bytes.
        self.ring.filled.0.store(self.filled, Ordering::Release);
        // Pairs with the fence in `Consumer::sleep`: either it sees the position, or we see it sleep.
        fence(Ordering::SeqCst);
        if !self.ring.sleeping.0.load(Ordering::Relaxed) {
            return false;
        }
        self.wake_up()
    }

    #[cold]
    fn wake_up(&self) -> bool {
        let slept = self.ring.sleeping.0.swap(false, Ordering::Relaxed);
        // Only a full counter refuses the write, and a full counter is readable.
        slept && write(&self.ring.call, &1u64.to_ne_bytes()).is_ok()
    }
}

impl Consumer {
    /// The number of slots that can be taken.
    #[inline]
    pub fn available(&mut self) -> u64 {
        // Acquire: pairs with the release in `Producer::publish`.
        self.filled = self.ring.filled.0.load(Ordering::Acquire);
        self.filled - self.taken
    }

    /// Takes a slot that [`Consumer::available`] counted into the arena.
    #[inline]
    pub fn take(&mut self, arena: &mut SgArena) {
        if let Some((at, bytes)) = self.next() {
            self.builder.push(arena, at as u64, bytes as u32);
        }
    }

    /// Takes a slot that [`Consumer::available`] counted, as a slice of its content.
    #[cfg(feature = "testing")]
    pub fn take_slice(&mut self) -> Option<SharedSlice<'_>> {
        let (at, bytes) = self.next()?;
        Some(self.ring.memory.slice(at, bytes))
    }

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.taken == self.filled {
            return None;
        }
        let slot = self.ring.slot(self.taken);
        self.taken += 1;
        Some((slot * self.ring.slot_bytes, self.ring.lengths[slot].load(Ordering::Relaxed) as usize))
    }

    /// Gives all taken slots back.
    #[inline]
    pub fn empty(&self) {
        // Release: pairs with the acquire in `Producer::free`; our reads are done.
        self.ring.emptied.0.store(self.taken, Ordering::Release);
    }

    /// Asks to be woken. Returns true, and asks for nothing, if there are filled slots.
    pub fn sleep(&mut self) -> bool {
        self.ring.sleeping.0.store(true, Ordering::Relaxed);
        // Pairs with the fence in `Producer::publish`.
        fence(Ordering::SeqCst);
        let there = self.available() > 0;
        if there {
            self.ring.sleeping.0.store(false, Ordering::Relaxed);
        }
        there
    }

    /// Cancels the request of `sleep`, and discards a wake-up that came.
    pub fn wake(&self) {
        self.ring.sleeping.0.store(false, Ordering::Relaxed);
        // A producer that saw the consumer sleep may still be about to call: the consumer then wakes once more for
        // nothing, and clears that call here. Reading fails if no producer called.
        let _ = read(&self.ring.call, &mut [0; 8]);
    }

    /// Readable when the producer has woken the consumer.
    pub fn call(&self) -> &OwnedFd {
        &self.ring.call
    }
}
