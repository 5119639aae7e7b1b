//! The dirty-page log of live migration (vhost-user, "Migration").

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::{AtomicSlice, MapError, Mapping, PeerMemory};

/// One bit stands for this many bytes of guest-physical memory, whatever the host's page size.
pub const PAGE_BYTES: u64 = 4096;

/// A write that the log has no bit for. The write itself was valid, but migration would lose it, so the front-end
/// must be informed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("guest page {page:#x} was written but the dirty log holds {pages:#x} pages; share a larger log")]
pub struct LogTooSmall {
    /// Number of the page that has no bit.
    pub page: u64,
    /// Pages that the log covers.
    pub pages: u64,
}

/// A bitmap shared with the front-end; a set bit tells it to send the page again.
#[derive(Debug)]
pub struct DirtyLog {
    bits: AtomicSlice<AtomicU8>,
}

impl DirtyLog {
    /// Maps `len` bytes of a file of this process as the log, from byte `offset` of the file on.
    ///
    /// # Errors
    /// The causes of [`Mapping::shared`]: the range is empty or passes the end of the file, the descriptor is no
    /// regular file open for reading and writing, or `fstat`, `fcntl`, `fstatfs` or `mmap` is refused.
    pub fn map(fd: impl AsFd, offset: u64, len: u64) -> Result<Self, MapError> {
        Ok(Self::over(Mapping::shared(fd, offset, len)?, offset))
    }

    /// Maps `len` bytes of a peer's file as the log, from byte `offset` of the file on.
    ///
    /// # Errors
    /// The causes of [`PeerMemory::map`]: the file is not one that the peer may share, the peer's limits are reached,
    /// or a system call is refused.
    pub fn of_peer(peer: &Arc<PeerMemory>, fd: impl AsFd, offset: u64, len: u64) -> Result<Self, MapError> {
        Ok(Self::over(peer.map(fd, offset, len)?, offset))
    }

    fn over(mapping: Mapping, offset: u64) -> Self {
        let bytes = mapping.len_bytes() as usize;
        let bits =
            AtomicSlice::new(&Arc::new(mapping), 0, bytes, offset).expect("bytes fit the mapping they are");
        DirtyLog { bits }
    }

    /// The mapping of the log.
    pub fn mapping(&self) -> &Mapping {
        self.bits.mapping()
    }

    /// Bytes of the log itself.
    pub fn len_bytes(&self) -> u64 {
        self.bits.len() as u64
    }

    /// Guest-physical bytes that the log covers.
    pub fn covers_bytes(&self) -> u64 {
        self.bits.len() as u64 * 8 * PAGE_BYTES
    }

    /// Marks the pages of the guest-physical range `guest .. guest + len` (bytes) as written.
    ///
    /// Must be called after the write: the front-end clears a bit and then copies the page, and its copy must contain
    /// the write. If another write announces the write (a used entry announces a buffer), the page is marked before
    /// the announcement. No page with visible new content then counts as clean.
    ///
    /// # Errors
    /// The range reaches past the pages that the log covers. The pages that the log covers are marked.
    pub fn mark(&self, guest: u64, len: u64) -> Result<(), LogTooSmall> {
        if len == 0 {
            return Ok(());
        }
        let pages = self.bits.len() as u64 * 8;
        let first = guest / PAGE_BYTES;
        let last = guest.saturating_add(len - 1) / PAGE_BYTES;
        let end = last.saturating_add(1).min(pages);
        let mut page = first;
        while page < end {
            let (index, bit) = ((page / 8) as usize, page % 8);
            // Whole bytes of the log at once: a long write is one operation for every 32 KiB.
            let count = (8 - bit).min(end - page);
            let mask = (0xff_u8 >> (8 - count)) << bit;
            // Release pairs with the front-end's atomic exchange of the word: bit seen, bytes seen.
            self.bits[index].fetch_or(mask, Ordering::Release);
            page += count;
        }
        if last >= pages { Err(LogTooSmall { page: first.max(pages), pages }) } else { Ok(()) }
    }

    /// Takes the set bits and clears them, as the front-end does. Returns page numbers.
    pub fn take(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for (i, byte) in self.bits.iter().enumerate() {
            let bits = byte.swap(0, Ordering::Acquire);
            pages.extend((0..8).filter(|bit| bits & (1 << bit) != 0).map(|bit| i as u64 * 8 + bit));
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truncate::tests::memfd;

    #[test]
    fn a_write_marks_every_page_that_it_touches() {
        let log = DirtyLog::map(memfd(4096), 0, 4).unwrap();
        assert_eq!(log.covers_bytes(), 32 * 4096);
        log.mark(4095, 2).unwrap();
        log.mark(9 * 4096, 4096).unwrap();
        log.mark(5, 0).unwrap();
        assert_eq!(log.take(), [0, 1, 9]);
        assert_eq!(log.take(), []);
    }

    #[test]
    fn a_long_write_marks_as_many_pages_and_no_others() {
        let log = DirtyLog::map(memfd(4096), 0, 16).unwrap();
        for (first, count) in [(0, 1), (3, 2), (6, 4), (7, 1), (7, 50), (8, 8), (8, 120), (0, 128)] {
            log.mark(first * 4096 + 17, count * 4096 - 17).unwrap();
            assert_eq!(log.take(), (first..first + count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_write_past_the_log_is_an_error_that_names_the_page() {
        let log = DirtyLog::map(memfd(4096), 0, 1).unwrap();
        assert_eq!(log.mark(7 * 4096, 4097), Err(LogTooSmall { page: 8, pages: 8 }));
        assert!(log.mark(u64::MAX, 8).is_err());
    }
}
