//! The driver half of a queue, independent of layout and features.

use std::iter::{Copied, Rev};
use std::slice::Iter;
use std::sync::atomic::AtomicU64;

use memory::{Address, AddressSpace, AtomicSlice, BindError};

use crate::error::{Malformed, Place, RingError};
use crate::{Position, QueueSize};

/// The direction of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The device reads the buffer.
    ToDevice,
    /// The device writes the buffer.
    FromDevice,
}

/// A buffer of one piece, with the caller's cookie, which is returned when the buffer is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The address, as the device knows it.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// A number of the caller's that identifies the buffer.
    pub cookie: u32,
}

/// One piece of a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address, as the device knows it.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
}

/// A buffer of several pieces: first those that the device reads, then those that it writes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Pieces that the device reads.
    pub readable: &'a [Piece],
    /// Pieces that the device writes.
    pub writable: &'a [Piece],
    /// A number of the caller's that identifies the request.
    pub cookie: u32,
}

impl Request<'_> {
    pub(crate) fn pieces(&self) -> usize {
        self.readable.len() + self.writable.len()
    }

    /// Bytes that the device may write; at most the largest used length.
    pub(crate) fn writable_bytes(&self) -> u32 {
        self.writable.iter().fold(0, |sum: u32, piece| sum.saturating_add(piece.len))
    }

    /// Each piece, and whether the device writes it.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Piece, bool)> {
        self.readable.iter().map(|p| (p, false)).chain(self.writable.iter().map(|p| (p, true)))
    }
}

/// A buffer that the device has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The cookie that the caller gave with the buffer.
    pub cookie: u32,
    /// Bytes that the device wrote; never more than the buffer holds.
    pub written: u32,
}

/// The driver half of a running queue.
pub trait DriverQueue: Send {
    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// The number of free descriptors, which is the number of one-piece buffers that fit.
    fn free_descriptors(&self) -> u16;

    /// Makes buffers of one piece available, as many as fit, and publishes once. Returns how many.
    fn add(&mut self, buffers: &[Buffer], direction: Direction) -> usize;

    /// Makes buffers of several pieces available, as many as fit in order, and publishes once. Returns how many. A
    /// request without pieces, or with more pieces than an empty queue holds, never fits.
    fn add_requests(&mut self, requests: &[Request<'_>]) -> usize;

    /// Appends up to `max` used buffers to `used`; returns how many.
    ///
    /// # Errors
    /// A used entry breaks a rule of VIRTIO 1.3 §2.7.8 or §2.8.9: its buffer is not outstanding, the index is too
    /// far ahead, or the length exceeds the writable part. The ring then stays stopped, and every later call
    /// returns the same error.
    fn reclaim(&mut self, used: &mut Vec<Used>, max: usize) -> Result<usize, RingError>;

    /// Whether the device must be kicked for buffers that were added since the last call of this function.
    fn needs_kick(&mut self) -> bool;

    /// Asks the device for a call when more buffers are used. Returns true if buffers are used already. The caller
    /// must then reclaim again, because no call will come for them.
    #[must_use]
    fn enable_calls(&mut self) -> bool;

    /// Tells the device that no call is needed.
    fn disable_calls(&mut self);

    /// The position of the ring that the device will have once it has used everything.
    fn position(&self) -> Position;

    /// The data of a kick with NOTIFICATION_DATA: queue number and position (VIRTIO 1.3 §2.9).
    fn notification_data(&self, queue: u16) -> u32;

    /// Empties the queue for a new start (RING_RESET, §2.6.1, or a device that is gone). Returns the cookies of the
    /// buffers that the device had. Must only be called when the device no longer uses the ring.
    fn reset(&mut self) -> Vec<u32>;
}

/// The data that a driver half keeps about one buffer, or about one descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub cookie: u32,
    pub writable: u32,
    /// The number of descriptors of the buffer with this head or id; 0 if there is none.
    pub slots: u16,
    /// The next descriptor of the chain, on split rings.
    pub next: u16,
}

/// Ids that no outstanding buffer has. The one given back last is used first. A linked list through the slots would
/// be slower, because each load would wait for the one before it.
#[derive(Debug, Default)]
pub(crate) struct FreeIds(Vec<u16>);

impl FreeIds {
    pub fn all(size: u16) -> Self {
        FreeIds((0..size).rev().collect())
    }

    /// The next `count` ids, in the order in which they are taken. The caller must know that there are as many.
    #[inline(always)]
    pub fn next(&self, count: usize) -> Copied<Rev<Iter<'_, u16>>> {
        self.0[self.0.len() - count..].iter().rev().copied()
    }

    /// Takes those.
    #[inline(always)]
    pub fn take(&mut self, count: usize) {
        self.0.truncate(self.0.len() - count);
    }

    #[inline(always)]
    pub fn give_back(&mut self, id: u16) {
        self.0.push(id);
    }
}

#[cold]
pub(crate) fn broken(rule: Malformed, place: Place, value: u64) -> RingError {
    RingError { rule, place, value }
}

/// Memory for indirect tables: one per descriptor of the queue, all of the same length.
pub struct IndirectTables {
    cells: AtomicSlice<AtomicU64>,
    address: u64,
    entries: u16,
}

impl IndirectTables {
    /// One table of `entries` descriptors (16 bytes each) for each descriptor of a queue of `size`, one after
    /// another from `address` on.
    ///
    /// # Errors
    /// The tables are not inside one region, or `address` is no multiple of 8.
    pub fn new(
        space: &AddressSpace,
        address: Address,
        entries: u16,
        size: QueueSize,
    ) -> Result<Self, BindError> {
        let words = 2 * usize::from(entries) * usize::from(size.get());
        Ok(IndirectTables { cells: space.atomic_slice(address, words)?, address: address.value(), entries })
    }

    /// The most pieces that fit into one table.
    pub(crate) fn entries(&self) -> usize {
        self.entries.into()
    }

    /// Writes one table, each descriptor as two words. Returns its address and length. The stores are relaxed: the
    /// descriptor that points to the table publishes them.
    pub(crate) fn write(&self, table: u16, descriptors: impl Iterator<Item = (u64, u64)>) -> (u64, u32) {
        let first = 2 * usize::from(table) * usize::from(self.entries);
        let mut len = 0;
        for (cells, (low, high)) in self.cells[first..].chunks_exact(2).zip(descriptors) {
            cells[0].store(low, std::sync::atomic::Ordering::Relaxed);
            cells[1].store(high, std::sync::atomic::Ordering::Relaxed);
            len += 16;
        }
        (self.address + 8 * first as u64, len)
    }
}
