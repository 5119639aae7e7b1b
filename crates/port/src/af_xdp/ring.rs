//! One of a socket's four rings: single producer, single consumer, the kernel at one end of each
//! (Documentation/networking/af_xdp.rst, "Rings").
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use memory::{AtomicSlice, Mapping};
use rustix::net::xdp::XdpRingOffset;

/// The kernel sleeps and wants to be told (`XDP_RING_NEED_WAKEUP`).
const NEED_WAKEUP: u32 = 1;

/// The memory of a ring that both ends see. Positions count up and wrap around. The low bits of a position are the
/// index of its entry.
#[derive(Debug)]
pub(super) struct Ring<const WORDS: usize> {
    /// The producer's position, the consumer's position, and flags.
    producer: AtomicSlice<AtomicU32>,
    consumer: AtomicSlice<AtomicU32>,
    flags: Option<AtomicSlice<AtomicU32>>,
    entries: AtomicSlice<AtomicU64>,
    size: u32,
}

/// Words of an entry of the fill or completion ring: an address in the registered memory.
pub(super) const ADDRESS_WORDS: usize = 1;
/// Words of an entry of the other rings: an address, and a length with options (`struct xdp_desc`).
pub(super) const DESCRIPTOR_WORDS: usize = 2;

impl<const WORDS: usize> Ring<WORDS> {
    /// Maps the ring that the socket offers at `page_offset`, with `size` entries.
    ///
    /// # Errors
    /// `mmap` is refused ([`Mapping::of_socket`]), or the kernel's offsets lie outside the ring or are not aligned.
    pub fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        offsets: XdpRingOffset,
        size: u32,
    ) -> std::io::Result<Self> {
        let words = size as usize * WORDS;
        let bytes = offsets.desc + (words * size_of::<u64>()) as u64;
        let mapping =
            Arc::new(Mapping::of_socket(socket, page_offset, bytes).map_err(std::io::Error::other)?);
        let cell = |offset| AtomicSlice::new(&mapping, offset, 1, page_offset).map_err(std::io::Error::other);
        Ok(Ring {
            producer: cell(offsets.producer)?,
            consumer: cell(offsets.consumer)?,
            flags: offsets.flags.map(cell).transpose()?,
            entries: AtomicSlice::new(&mapping, offsets.desc, words, page_offset)
                .map_err(std::io::Error::other)?,
            size,
        })
    }

    #[inline]
    fn words(&self, position: u32) -> &[AtomicU64] {
        let first = (position & (self.size - 1)) as usize * WORDS;
        &self.entries[first..first + WORDS]
    }

    /// Entries that are published and not yet taken.
    #[inline]
    pub fn waiting(&self) -> u32 {
        // Acquire on the consumer's position pairs with its release: what it has read may be written again.
        self.producer[0].load(Ordering::Acquire).wrapping_sub(self.consumer[0].load(Ordering::Acquire))
    }

    /// Whether the kernel takes entries only after a system call. Kernels before 5.4 do not say; then the answer is
    /// yes.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        // The kernel raises the flag and then looks at the ring once more; we publish and then look at the flag.
        fence(Ordering::SeqCst);
        self.flags.as_ref().is_none_or(|flags| flags[0].load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }
}

/// Our end of a ring that the kernel consumes.
#[derive(Debug)]
pub(super) struct Producer<const WORDS: usize> {
    ring: Arc<Ring<WORDS>>,
    /// The next position to write, which includes unpublished entries.
    next: u32,
}

impl<const WORDS: usize> Producer<WORDS> {
    pub fn of(ring: Arc<Ring<WORDS>>) -> Self {
        let next = ring.producer[0].load(Ordering::Relaxed);
        Producer { ring, next }
    }

    /// Writes the next entry. The rings have as many entries as there are chunks for them, so there is always room.
    #[inline]
    pub fn put(&mut self, entry: [u64; WORDS]) {
        for (word, value) in self.ring.words(self.next).iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Publishes the written entries to the kernel.
    #[inline]
    pub fn publish(&self) {
        // Release: the entries, and the bytes they stand for, are written before.
        self.ring.producer[0].store(self.next, Ordering::Release);
    }

    #[inline]
    pub fn ring(&self) -> &Arc<Ring<WORDS>> {
        &self.ring
    }
}

/// Our end of a ring that the kernel fills.
#[derive(Debug)]
pub(super) struct Consumer<const WORDS: usize> {
    ring: Ring<WORDS>,
    /// The next position to read, which includes entries not given back yet.
    next: u32,
}

impl<const WORDS: usize> Consumer<WORDS> {
    pub fn of(ring: Ring<WORDS>) -> Self {
        let next = ring.consumer[0].load(Ordering::Relaxed);
        Consumer { ring, next }
    }

    /// The number of entries to read.
    #[inline]
    pub fn available(&self) -> u32 {
        // Acquire pairs with the kernel's release: a thread that sees the position sees the entries and the bytes.
        let filled = self.ring.producer[0].load(Ordering::Acquire);
        filled.wrapping_sub(self.next).min(self.ring.size)
    }

    /// Reads an entry that [`Consumer::available`] counted.
    #[inline]
    pub fn take(&mut self) -> [u64; WORDS] {
        let mut entry = [0; WORDS];
        for (value, word) in entry.iter_mut().zip(self.ring.words(self.next)) {
            *value = word.load(Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
        entry
    }

    /// Gives the entries that were read back to the kernel.
    #[inline]
    pub fn release(&self) {
        // Release: our reads are done before the kernel writes there again.
        self.ring.consumer[0].store(self.next, Ordering::Release);
    }
}

/// A descriptor's second word: length, and no options.
#[inline]
pub(super) fn length_word(bytes: u32) -> u64 {
    if cfg!(target_endian = "little") { u64::from(bytes) } else { u64::from(bytes) << 32 }
}

/// The length in a descriptor's second word.
#[inline]
pub(super) fn length_of(word: u64) -> u32 {
    if cfg!(target_endian = "little") { word as u32 } else { (word >> 32) as u32 }
}
