//! What one peer may have mapped here, how much of it is, and whether some of it was lost.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{MAX_REGIONS, MapError, Mapping};

/// Mappings of one peer at most: all regions of a table, and as many again while another table takes its place.
const MAX_MAPPINGS: usize = 2 * MAX_REGIONS;

/// Which files a peer may share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Memory files only: tmpfs (memfd and `/dev/shm` among it), hugetlbfs, ramfs. A fault on them waits for nobody.
    #[default]
    Ram,
    /// Any regular file. Whoever serves its file system decides how long a fault takes: a disk, a server, or, with
    /// FUSE, the peer itself.
    Any,
}

/// Why memory of a peer is no longer what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The file ended before the mapping does, or its file system had no page left.
    Shortened,
    /// The machine reported an error of its memory that it could not correct.
    HardwareError,
}

/// A mapping whose memory now reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Bytes of the mapping.
    pub bytes: u64,
    /// What happened.
    pub cause: LossCause,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = self.bytes.div_ceil(1024);
        let (amount, unit) = if kib.is_multiple_of(1024) { (kib / 1024, "MiB") } else { (kib, "KiB") };
        match self.cause {
            LossCause::Shortened => write!(
                f,
                "the front-end shortened its shared memory file of {amount} {unit}, or the file system had no page \
                 left for it: its memory reads as zeros now; share a memfd sealed with F_SEAL_SHRINK or reserve \
                 all pages (QEMU: prealloc=on), and restart the guest"
            ),
            LossCause::HardwareError => write!(
                f,
                "this machine's memory has failed under {amount} {unit} that the front-end shares: they read as \
                 zeros now; see the kernel's log for the failed memory, and restart the guest"
            ),
        }
    }
}

/// The memory that one peer shares: every mapping of it counts, whoever holds it still, and belongs to the same
/// watch. Its descriptor becomes readable when a mapping is lost.
///
/// The limit holds for what is in use at a time. While one table of regions takes the place of another, both are
/// mapped: twice the limit is refused here, and a table larger than the limit by whoever makes the table.
#[derive(Debug)]
pub struct PeerMemory {
    limit_bytes: u64,
    backing: Backing,
    held_bytes: AtomicU64,
    mappings: AtomicUsize,
    lost: EventFd,
    /// The first loss since the last [`PeerMemory::take_loss`]: its bytes, a multiple of a page, and in the lowest
    /// bits the cause.
    loss: AtomicU64,
}

/// In the lowest bits of `loss`.
const SHORTENED: u64 = 1;
const HARDWARE_ERROR: u64 = 2;
const CAUSE_BITS: u64 = 3;

impl PeerMemory {
    /// For one peer, with nothing mapped yet. Fails if no eventfd is to be had.
    pub fn new(limit_bytes: u64, backing: Backing) -> io::Result<Arc<Self>> {
        let lost = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Arc::new(PeerMemory {
            limit_bytes,
            backing,
            held_bytes: AtomicU64::new(0),
            mappings: AtomicUsize::new(0),
            lost,
            loss: AtomicU64::new(0),
        }))
    }

    /// Maps `len` bytes of the peer's `fd` from `offset`, guarded and counted.
    pub fn map(self: &Arc<Self>, fd: impl AsFd, offset: u64, len: u64) -> Result<Mapping, MapError> {
        Mapping::of_peer(self, fd, offset, len)
    }

    /// Most bytes that may be in use at a time.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes that are mapped, by whoever.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn backing(&self) -> Backing {
        self.backing
    }

    /// Counts a mapping before it is made.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, MapError> {
        let limit = self.limit_bytes.saturating_mul(2);
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
        self.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|held| {
            let (size, limit) = (bytes, self.limit_bytes);
            MapError::OverLimit { size, held, limit }
        })?;
        // Gives the bytes back whatever comes.
        let reserved = Reserved { peer: Arc::clone(self), bytes };
        if self.mappings.fetch_add(1, Ordering::Relaxed) >= MAX_MAPPINGS {
            return Err(MapError::TooMany { limit: MAX_MAPPINGS, whose: "of one peer" });
        }
        Ok(reserved)
    }

    /// Called by the signal handler: nothing here locks, allocates or waits.
    pub(crate) fn report(&self, bytes: u64, cause: LossCause) {
        let cause = match cause {
            LossCause::Shortened => SHORTENED,
            LossCause::HardwareError => HARDWARE_ERROR,
        };
        let loss = bytes & !CAUSE_BITS | cause;
        let _ = self.loss.compare_exchange(0, loss, Ordering::Release, Ordering::Relaxed);
        let _ = self.lost.write(1);
    }

    /// The loss that was reported since this was last asked, the first of several.
    pub fn take_loss(&self) -> Option<Loss> {
        let _ = self.lost.read();
        let loss = self.loss.swap(0, Ordering::Acquire);
        let cause = match loss & CAUSE_BITS {
            0 => return None,
            HARDWARE_ERROR => LossCause::HardwareError,
            _ => LossCause::Shortened,
        };
        Some(Loss { bytes: loss & !CAUSE_BITS, cause })
    }
}

impl AsFd for PeerMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lost.as_fd()
    }
}

/// What one mapping counts for.
#[derive(Debug)]
pub(crate) struct Reserved {
    peer: Arc<PeerMemory>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.peer.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.peer.mappings.fetch_sub(1, Ordering::Relaxed);
    }
}
