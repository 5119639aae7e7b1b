use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

use nix::errno::Errno;

/// Memory of its own: mapped here, unmapped on drop, reached only by volatile copies, because the kernel
/// may write to it at any time.
pub struct Mapping {
    start: NonNull<u8>,
    length_bytes: usize,
}

impl Mapping {
    /// Private anonymous memory; `flags` are further MAP_… flags, MAP_HUGETLB with its size for one.
    pub fn anonymous(length_bytes: usize, flags: c_int) -> nix::Result<Self> {
        // MAP_FIXED would replace a mapping that others use.
        let flags = (flags & !libc::MAP_FIXED) | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        Self::map(length_bytes, flags, -1, 0)
    }

    /// Memory shared with the kernel through a descriptor, a ring of an AF_XDP socket for one.
    pub fn shared(length_bytes: usize, fd: BorrowedFd<'_>, offset_bytes: i64) -> nix::Result<Self> {
        Self::map(length_bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset_bytes)
    }

    fn map(length_bytes: usize, flags: c_int, fd: c_int, offset_bytes: i64) -> nix::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED, which no caller passes, the kernel chooses free addresses.
        let start = unsafe { libc::mmap(null_mut(), length_bytes, protection, flags, fd, offset_bytes) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::ENOMEM)?, length_bytes })
    }

    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    pub fn lock(&self) -> nix::Result<()> {
        // SAFETY: the range is this mapping's own; locking changes no contents.
        Errno::result(unsafe { libc::mlock(self.start.as_ptr().cast(), self.length_bytes) }).map(drop)
    }

    /// MADV_HUGEPAGE: huge pages please, where the system leaves it to the program.
    pub fn prefer_huge_pages(&self) -> nix::Result<()> {
        self.advise(libc::MADV_HUGEPAGE)
    }

    /// Really puts pages behind the whole range. Asks the kernel first (MADV_POPULATE_WRITE, Linux 5.14),
    /// which answers with an error where touching would be answered with SIGBUS.
    pub fn populate(&self) -> nix::Result<()> {
        match self.advise(libc::MADV_POPULATE_WRITE) {
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(error) => return Err(error),
        }
        const SMALLEST_PAGE_BYTES: usize = 4096;
        for offset in (0..self.length_bytes).step_by(SMALLEST_PAGE_BYTES) {
            self.write(offset, &[1]);
        }
        Ok(())
    }

    fn advise(&self, advice: c_int) -> nix::Result<()> {
        // SAFETY: the range is this mapping's own, and the private callers pass advice that discards
        // nothing.
        Errno::result(unsafe { libc::madvise(self.start.as_ptr().cast(), self.length_bytes, advice) })
            .map(drop)
    }

    /// Writes bytes at an offset.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        for (index, &byte) in bytes.iter().enumerate() {
            // SAFETY: checked to be within the mapping, which no Rust reference points into.
            unsafe { self.start.add(offset + index).write_volatile(byte) };
        }
    }

    /// Reads bytes at an offset.
    pub fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        self.check(offset, length);
        // SAFETY: checked to be within the mapping, which no Rust reference points into.
        (0..length).map(|index| unsafe { self.start.add(offset + index).read_volatile() }).collect()
    }

    /// The place of a 32-bit index that the kernel reads or writes too.
    pub fn index(&self, offset: usize) -> &std::sync::atomic::AtomicU32 {
        self.check(offset, 4);
        assert!(offset.is_multiple_of(4), "an index is aligned");
        // SAFETY: within the mapping, aligned (a mapping starts at a page), alive as long as `self`, and
        // accessed by both sides as an atomic.
        unsafe { std::sync::atomic::AtomicU32::from_ptr(self.start.add(offset).as_ptr().cast()) }
    }

    fn check(&self, offset: usize, length: usize) {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.length_bytes), "within the mapping");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nothing that borrows from `self` is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length_bytes) };
    }
}
