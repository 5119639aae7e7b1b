use std::ffi::c_void;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::io::{self, Errno};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap, mmap_anonymous, munmap};

/// Reading and writing: every probe needs both.
const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// MAP_HUGE_SHIFT of linux/mman.h: where the size of a huge page stands in the flags.
const MAP_HUGE_SHIFT: u32 = 26;

/// A memory mapping, unmapped on drop. The mapping is accessed only by volatile copies, because the kernel may write
/// to it at any time.
pub struct Mapping {
    start: NonNull<u8>,
    length_bytes: usize,
}

impl Mapping {
    /// Maps private anonymous memory of this many bytes, rounded up to whole pages by the kernel.
    ///
    /// # Errors
    /// `mmap` is refused: the length is 0, or too large for the address space or its limit.
    pub fn anonymous(length_bytes: usize) -> io::Result<Self> {
        // SAFETY: without MAP_FIXED the kernel chooses free addresses.
        Self::of(
            unsafe { mmap_anonymous(null_mut(), length_bytes, ACCESS, MapFlags::PRIVATE) }?,
            length_bytes,
        )
    }

    /// Maps one huge page of `page_bytes`, a power of two, from the reserved pool.
    ///
    /// # Errors
    /// `mmap` is refused: the kernel has no huge pages of this size, or too few are free in the pool.
    pub fn huge(page_bytes: usize) -> io::Result<Self> {
        let size = MapFlags::from_bits_retain(page_bytes.ilog2() << MAP_HUGE_SHIFT);
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | size;
        // SAFETY: without MAP_FIXED the kernel chooses free addresses.
        Self::of(unsafe { mmap_anonymous(null_mut(), page_bytes, ACCESS, flags) }?, page_bytes)
    }

    /// Maps memory that is shared with the kernel through a descriptor, such as a ring of an AF_XDP socket.
    ///
    /// # Errors
    /// `mmap` is refused: the descriptor cannot be mapped, or has no such range.
    pub fn shared(length_bytes: usize, fd: BorrowedFd<'_>, offset_bytes: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: without MAP_FIXED the kernel chooses free addresses.
        Self::of(unsafe { mmap(null_mut(), length_bytes, ACCESS, flags, fd, offset_bytes) }?, length_bytes)
    }

    fn of(start: *mut c_void, length_bytes: usize) -> io::Result<Self> {
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, length_bytes })
    }

    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    pub fn length_bytes(&self) -> usize {
        self.length_bytes
    }

    /// Locks the whole mapping in memory.
    ///
    /// # Errors
    /// `mlock` is refused: RLIMIT_MEMLOCK is exceeded without CAP_IPC_LOCK, or there is too little memory.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: the range is this mapping's own; locking changes no contents.
        unsafe { mlock(self.start.as_ptr().cast(), self.length_bytes) }
    }

    /// Asks for transparent huge pages (MADV_HUGEPAGE); the kernel follows where its mode is `always` or `madvise`.
    ///
    /// # Errors
    /// `madvise` is refused: the kernel is built without transparent huge pages.
    pub fn prefer_huge_pages(&self) -> io::Result<()> {
        self.advise(Advice::LinuxHugepage)
    }

    /// Allocates pages for the whole range. The function first asks the kernel (MADV_POPULATE_WRITE, Linux 5.14),
    /// which answers with an error if touching a page would raise SIGBUS. On older kernels the function touches the
    /// pages without this check.
    ///
    /// # Errors
    /// The kernel cannot provide the pages: too little memory, or too few huge pages in the pool or the cgroup.
    pub fn populate(&self) -> io::Result<()> {
        match self.advise(Advice::LinuxPopulateWrite) {
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
        const SMALLEST_PAGE_BYTES: usize = 4096;
        for offset in (0..self.length_bytes).step_by(SMALLEST_PAGE_BYTES) {
            self.write(offset, &[1]);
        }
        Ok(())
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is this mapping's own, and the private callers pass advice that discards
        // nothing.
        unsafe { madvise(self.start.as_ptr().cast(), self.length_bytes, advice) }
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

    /// The atomic value at an offset, for a 32-bit index that the kernel reads or writes too.
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
        // SAFETY: mapped with this length, and nothing that borrows from `self` is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.length_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping an own mapping: {unmapped:?}");
    }
}
