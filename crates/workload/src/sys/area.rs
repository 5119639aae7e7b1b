//! Memory mapped from the kernel.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::io::{self, Errno};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The kind of pages that back an area of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    Small,
    /// Transparent huge pages of this many bytes.
    Huge(usize),
}

/// An area of zeroed private memory, released on drop. Pages are allocated at the first access, and children made by
/// fork do not get the area, so that earlier measurements do not make a fork more expensive.
#[derive(Debug)]
pub(crate) struct Area {
    mapping: NonNull<c_void>,
    mapped_bytes: usize,
    start: NonNull<u64>,
    words: usize,
}

impl Area {
    /// Maps an area; `bytes` must be a whole number of pages of this kind.
    pub(crate) fn map(bytes: usize, pages: Pages) -> io::Result<Self> {
        let align = match pages {
            Pages::Small => 4096,
            Pages::Huge(bytes) => bytes,
        };
        let mapped_bytes = bytes.checked_add(align).ok_or(Errno::NOMEM)?;
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches no other memory.
        let mapping = unsafe {
            mmap_anonymous(
                null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let mapping = NonNull::new(mapping).ok_or(Errno::NOMEM)?;
        let offset = mapping.as_ptr().align_offset(align);
        // SAFETY: `offset` is below `align`, and `align` bytes beyond `bytes` are mapped.
        let start = unsafe { mapping.byte_add(offset) }.cast();
        let area = Area { mapping, mapped_bytes, start, words: bytes / size_of::<u64>() };
        area.advise(Advice::LinuxDontFork)?;
        match pages {
            Pages::Huge(_) => area.advise(Advice::LinuxHugepage)?,
            // A kernel without huge pages does not know the advice (madvise(2), EINVAL), nor need it.
            Pages::Small => match area.advise(Advice::LinuxNoHugepage) {
                Err(Errno::INVAL) => {}
                other => other?,
            },
        }
        Ok(area)
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is this value's own mapping; the advices used change no content.
        unsafe { madvise(self.mapping.as_ptr(), self.mapped_bytes, advice) }
    }

    /// Releases all pages; the next access faults again.
    pub(crate) fn discard(&mut self) -> io::Result<()> {
        // SAFETY: the range is this value's own, exclusively borrowed; it reads as zeros afterwards, which
        // is a valid content of a slice of integers.
        unsafe { madvise(self.mapping.as_ptr(), self.mapped_bytes, Advice::LinuxDontNeed) }
    }

    /// The content.
    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: `words` words from `start` lie within the mapping, which lives as long as `self`; pages
        // not touched yet read as zeros.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The contents as 64-bit words, for writing.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as for `words`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }

    /// The contents as 32-bit words.
    pub(crate) fn half_words(&self) -> &[u32] {
        // SAFETY: as for `words`; a u32 needs less alignment than a u64 and any bits are valid.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.words * 2) }
    }

    /// The contents as 32-bit words, for writing.
    pub(crate) fn half_words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as for `half_words`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.words * 2) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and no reference outlives it.
        let unmapped = unsafe { munmap(self.mapping.as_ptr(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "unmapping an own mapping: {unmapped:?}");
    }
}

/// Maps memory, writes to its first page and unmaps it.
pub(crate) fn map_touch_unmap(bytes: usize) -> io::Result<()> {
    // SAFETY: a fresh private mapping at an address of the kernel's choice touches no other memory.
    let mapping =
        unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
    // SAFETY: the first byte of a mapping that was just made, writable and without other users.
    unsafe { mapping.cast::<u8>().write_volatile(1) };
    // SAFETY: the mapping is unmapped once and no reference to it exists.
    unsafe { munmap(mapping, bytes) }
}
