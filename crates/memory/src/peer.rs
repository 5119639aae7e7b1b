//! The memory that one peer has mapped here: which files it may share, how much is mapped, and whether some of it was
//! lost.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit};

use crate::drop_queue::DropQueue;
use crate::file_watch;
use crate::kept_files::KeptFiles;
use crate::map_error::MapError;
use crate::{MAX_REGIONS, Size};

/// Mappings of one peer at most: all regions of a table, and as many again while another table takes its place.
const MAX_MAPPINGS: usize = 2 * MAX_REGIONS;

/// Mappings that each peer may have whatever others do: the eight regions that every back-end takes (vhost-user,
/// "Memory region description"), log and in-flight buffer, and all of it once more while it is replaced.
const ASSURED_MAPPINGS: usize = 20;

/// Mappings beyond those, of all peers together. A process has 65 530 (vm.max_map_count) and allocates by some of
/// them: with a thousand peers there are still 12 000 for itself.
const SHARED_MAPPINGS: usize = 1 << 15;

static SHARED_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The most mappings of all peers together, beyond the assured ones. The holder of a mapping keeps its file open too,
/// to hand it over, so half of the open-files limit is left for other files.
fn shared_mappings() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    SHARED_MAPPINGS.min(files.unwrap_or(usize::MAX) / 2)
}

/// Which files a peer may share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// Memory files only: tmpfs (including memfd and `/dev/shm`), hugetlbfs, ramfs. A page fault on them waits for no
    /// disk, server or program.
    #[default]
    Ram,
    /// Any regular file. Its file system decides how long a page fault takes: a disk, a remote host, or, with FUSE,
    /// the peer itself.
    Any,
}

/// Why memory of a peer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossCause {
    /// The file was shorter than the mapping, or its file system had no page left.
    Shortened,
    /// The machine reported an error of its memory that it could not correct.
    HardwareError,
}

/// A mapping whose memory now reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Size of the mapping in bytes.
    pub bytes: u64,
    /// What happened.
    pub cause: LossCause,
}

/// The memory that one peer shares. Every mapping is counted as long as it has a holder. The descriptor of this value
/// becomes readable when a mapping is lost.
///
/// The limit is for what is in use at a time. While one table of regions replaces another, both are mapped. The limit
/// that is enforced here is therefore twice as high. The caller that makes a table must reject one above the limit.
#[derive(Debug)]
pub struct PeerMemory {
    limit_bytes: u64,
    backing: Backing,
    /// Unmaps on a separate thread: the last mapping of a guest's pages frees them, which takes time in proportion to
    /// their number.
    unmapper: Arc<DropQueue>,
    held_bytes: AtomicU64,
    mappings: AtomicUsize,
    /// The files, once they are counted.
    kept_files: OnceLock<KeptFiles>,
    lost: OwnedFd,
    /// The first loss since the last [`PeerMemory::take_loss`]: its bytes, which are a multiple of a page, with the
    /// cause in the lowest bits.
    loss: AtomicU64,
}

/// The kind of loss, in the lowest bits of `loss`.
const SHORTENED: u64 = 1;
const HARDWARE_ERROR: u64 = 2;
const CAUSE_BITS: u64 = 3;

impl PeerMemory {
    /// The account of one peer, with nothing mapped yet. A separate thread unmaps its memory later.
    ///
    /// # Errors
    /// `eventfd` is refused, for example at the open-files limit.
    pub fn new(limit_bytes: u64, backing: Backing) -> io::Result<Arc<Self>> {
        Self::unmapped_by(Arc::new(DropQueue::new("closer", 1)), limit_bytes, backing)
    }

    /// The account of one peer, with nothing mapped yet. The threads of `unmapper` unmap its memory later.
    ///
    /// # Errors
    /// `eventfd` is refused, for example at the open-files limit.
    pub fn unmapped_by(
        unmapper: Arc<DropQueue>,
        limit_bytes: u64,
        backing: Backing,
    ) -> io::Result<Arc<Self>> {
        let lost = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(PeerMemory {
            limit_bytes,
            backing,
            unmapper,
            held_bytes: AtomicU64::new(0),
            mappings: AtomicUsize::new(0),
            kept_files: OnceLock::new(),
            lost,
            loss: AtomicU64::new(0),
        }))
    }

    /// The most bytes that may be in use at a time.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Bytes of this peer's files that are mapped.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Begins to count files that were mapped ([`Mapping::count_file`](crate::Mapping::count_file)) until the last
    /// holder closes them.
    ///
    /// # Errors
    /// `inotify_init` is refused: this user's limit of inotify instances or of open files is reached.
    pub fn count_files(&self) -> io::Result<()> {
        file_watch::prepare()?;
        self.kept_files.get_or_init(KeptFiles::default);
        Ok(())
    }

    /// Bytes that files may keep, in addition to what is mapped.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_files.get().map_or(0, KeptFiles::bytes)
    }

    pub(crate) fn kept_files(&self) -> Option<&KeptFiles> {
        self.kept_files.get()
    }

    /// The queue whose threads unmap.
    pub(crate) fn unmapper(&self) -> &DropQueue {
        &self.unmapper
    }

    pub(crate) fn backing(&self) -> Backing {
        self.backing
    }

    /// Counts a mapping before it is made.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reserved, MapError> {
        let limit = self.limit_bytes.saturating_mul(2);
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= limit);
        self.held_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|held| {
            MapError::OverLimit { size: Size(bytes), held: Size(held), limit: Size(self.limit_bytes) }
        })?;
        // Gives the bytes back whatever comes.
        let reserved = Reserved { peer: Arc::clone(self), bytes };
        let before = self.mappings.fetch_add(1, Ordering::Relaxed);
        if before >= ASSURED_MAPPINGS {
            let limit = shared_mappings();
            if SHARED_IN_USE.fetch_add(1, Ordering::Relaxed) >= limit {
                let whose = "of all peers, beyond the 20 that each may have,";
                return Err(MapError::TooMany { limit, whose });
            }
        }
        if before >= MAX_MAPPINGS {
            return Err(MapError::TooMany { limit: MAX_MAPPINGS, whose: "of one peer" });
        }
        Ok(reserved)
    }

    /// Records a loss. The signal handler calls this, so it must not lock, allocate or wait.
    pub(crate) fn report(&self, bytes: u64, cause: LossCause) {
        let cause = match cause {
            LossCause::Shortened => SHORTENED,
            LossCause::HardwareError => HARDWARE_ERROR,
        };
        let loss = bytes & !CAUSE_BITS | cause;
        let _ = self.loss.compare_exchange(0, loss, Ordering::Release, Ordering::Relaxed);
        let _ = rustix::io::write(&self.lost, &1u64.to_ne_bytes());
    }

    /// Takes the loss that was reported since the last call. Of several losses it is the first.
    pub fn take_loss(&self) -> Option<Loss> {
        let _ = rustix::io::read(&self.lost, &mut [0; 8]);
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

/// The bytes that one mapping is counted for.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) peer: Arc<PeerMemory>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.peer.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.peer.mappings.fetch_sub(1, Ordering::Relaxed) > ASSURED_MAPPINGS {
            SHARED_IN_USE.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Rlimit, setrlimit};

    use super::*;
    use crate::drop_queue::tests::settle;
    use crate::truncate::tests::memfd;
    use crate::{Region, RegionRange};

    const PAGE: u64 = 4096;

    #[test]
    fn what_is_held_counts_until_it_is_unmapped() {
        let peer = PeerMemory::new(4 * PAGE, Backing::Ram).unwrap();
        let file = memfd(16 * PAGE);
        let first = peer.map(&file, 0, 4 * PAGE).unwrap();
        // Widened to whole pages.
        let second = peer.map(&file, 0, 3 * PAGE + 1).unwrap();
        assert_eq!(peer.held_bytes(), 8 * PAGE);
        let error = peer.map(&file, 0, 1).unwrap_err();
        assert!(error.to_string().starts_with("4 KiB more than the 32 KiB that are mapped"), "{error}");
        drop(first);
        settle(peer.unmapper());
        let error = peer.map(&file, 0, 5 * PAGE).unwrap_err();
        assert!(matches!(error, MapError::OverLimit { .. }), "{error}");
        // A mapping that fails later gives back the bytes that it was counted for.
        assert!(peer.map(&file, 16 * PAGE, 1).is_err());
        drop(peer.map(&file, 12 * PAGE, 4 * PAGE).unwrap());
        drop(second);
        settle(peer.unmapper());
        assert_eq!(peer.held_bytes(), 0);
    }

    /// Freeing much memory takes long, and the thread that drops the last mapping also serves other peers.
    #[test]
    fn who_drops_a_mapping_does_not_unmap_it() {
        struct Waits(std::sync::mpsc::Receiver<()>);
        impl Drop for Waits {
            fn drop(&mut self) {
                let _ = self.0.recv();
            }
        }
        let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
        let (go_on, until) = std::sync::mpsc::channel();
        peer.unmapper().put(Waits(until));
        let mapping = peer.map(memfd(4 * PAGE), 0, 4 * PAGE).unwrap();
        let first = mapping.start().as_ptr() as usize;
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| line.starts_with(&format!("{first:x}-")))
        };
        drop(mapping);
        assert!(is_mapped(), "by this thread");
        assert_eq!(peer.held_bytes(), 4 * PAGE, "it counts until then");
        go_on.send(()).unwrap();
        settle(peer.unmapper());
        assert_eq!(peer.held_bytes(), 0);
    }

    #[test]
    fn a_peer_has_so_many_mappings_and_no_more() {
        // Others may have half as many as files may be open.
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
        let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
        let file = memfd(PAGE);
        let mut held: Vec<_> = (0..MAX_MAPPINGS).map(|_| peer.map(&file, 0, PAGE).unwrap()).collect();
        for _ in 0..2 {
            let error = peer.map(&file, 0, PAGE).unwrap_err();
            assert!(error.to_string().starts_with("1018 mappings of one peer"), "{error}");
        }
        held.pop();
        settle(peer.unmapper());
        peer.map(&file, 0, PAGE).unwrap();
    }

    #[test]
    fn files_that_may_wait_are_refused_by_name() {
        let folder = std::env::current_exe().unwrap();
        let disk = tempfile::tempfile_in(folder.parent().unwrap()).unwrap();
        disk.set_len(PAGE).unwrap();
        let shared = |backing| PeerMemory::new(1 << 30, backing).unwrap().map(&disk, 0, PAGE).map(drop);
        let (system, _) = crate::FileSystem::of(&disk).unwrap();
        match shared(Backing::Ram) {
            // This folder is no disk's.
            Ok(()) => assert!(["tmpfs", "hugetlbfs", "ramfs"].contains(&&*system.to_string()), "{system}"),
            Err(error) => assert!(error.to_string().contains(&format!("is on {system},")), "{error}"),
        }
        shared(Backing::Any).unwrap();
    }

    #[test]
    fn regions_are_whole_pages() {
        let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
        let file = memfd(4 * PAGE);
        let region = |offset, size, guest| {
            Region::of_peer(&peer, &file, RegionRange { offset, size, guest_base: guest, user_base: 0 })
                .map(drop)
        };
        region(PAGE, PAGE, PAGE).unwrap();
        for (what, refused) in [
            ("file offset", region(512, PAGE, 0)),
            ("size 0x1001", region(0, PAGE + 1, 0)),
            ("guest address", region(0, PAGE, 1)),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("no multiple of 4096"), "{error}");
        }
        settle(peer.unmapper());
        assert_eq!(peer.held_bytes(), 0);
    }
}
