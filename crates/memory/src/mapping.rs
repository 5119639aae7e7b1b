//! One shared mapping of a file: memfd, hugetlbfs or plain file, with any page size.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, OnceLock};

use rustix::fs::{
    FileType, MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fcntl_getfl, fstat,
    memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::file_system::FileSystem;
use crate::map_error::MapError;
use crate::peer::{Backing, PeerMemory, Reserved};
use crate::truncate::{SLOTS, Slot, register};

/// Whether the peer can still shorten the file under the mapping (`ftruncate`), and so cause SIGBUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrinkable {
    /// `F_SEAL_SHRINK` is set: the file can never become shorter.
    Sealed,
    /// A memfd without the seal, or a file that cannot be sealed. [`crate::TruncationGuard`] handles the SIGBUS.
    Possible,
}

/// A shared, readable and writable mapping. It is unmapped when the last holder drops it; a peer's memory is unmapped
/// by a separate thread.
#[derive(Debug)]
pub struct Mapping {
    /// The page-aligned start of the mapped memory, and its length.
    base: NonNull<u8>,
    mapped: usize,
    /// The offset of the requested bytes: they are `base + skip .. + len`.
    skip: usize,
    len: usize,
    shrinkable: Shrinkable,
    guard: Option<Guard>,
}

/// The registration of a peer's mapping.
#[derive(Debug)]
struct Guard {
    slot: &'static Slot,
    /// The file, which is counted for what it may keep when it is unmapped.
    file: OnceLock<CountedFile>,
    /// The reservation. The reservation is released after the memory is unmapped, and keeps the peer alive to which the
    /// slot refers.
    counted: Reserved,
}

/// A mapped file of a peer. Its mapped bytes count until this value is dropped; from then on the pages count that the
/// file has.
struct CountedFile {
    peer: Arc<PeerMemory>,
    file: Box<dyn AsFd + Send + Sync>,
    bytes: u64,
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        if let Some(files) = self.peer.kept_files() {
            files.unmapped(&self.file, self.bytes);
        }
    }
}

impl fmt::Debug for CountedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CountedFile({} bytes)", self.bytes)
    }
}

/// The mapped pages, which are unmapped on drop.
struct Pages {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the holder of this value owns the mapping, and does nothing with it but unmap it.
unsafe impl Send for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and everything that holds a pointer into it holds an `Arc` of the
        // `Mapping` that this was a part of.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the mapping is plain memory owned by this value until drop; every access through it is atomic
// or volatile, so threads may share it.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method of a shared `Mapping` hands out a reference to non-atomic bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a file of this process, shared, from byte `offset` of the file on.
    ///
    /// The file must already be long enough: an access past its end raises SIGBUS. Offset and length need no
    /// alignment: the mapping is widened to whole pages of the file (2 MiB or 1 GiB on hugetlbfs), as the kernel
    /// requires.
    ///
    /// # Errors
    /// The range is empty or overflows, or passes the end of the file; the descriptor is no regular file, is not
    /// open for reading and writing, or is sealed against writing; or `fstat`, `fcntl`, `fstatfs` or `mmap` is
    /// refused.
    pub fn shared(fd: impl AsFd, offset: u64, len: u64) -> Result<Self, MapError> {
        let extent = Extent::of(&fd, offset, len)?;
        extent.map(&fd)
    }

    /// Maps `len` bytes that the kernel offers at `page_offset` of a socket: a ring of AF_XDP
    /// (Documentation/networking/af_xdp.rst). `page_offset` selects the ring; it is not an offset in a file. The
    /// memory exists as long as it is mapped.
    ///
    /// # Errors
    /// `len` is 0 or exceeds the address space, or `mmap` is refused: the socket has no ring at `page_offset`, or a
    /// shorter one.
    pub fn of_socket(socket: impl AsFd, page_offset: u64, len: u64) -> Result<Self, MapError> {
        let mapped = usize::try_from(len).ok().and_then(NonZeroUsize::new);
        let mapped = mapped.ok_or(MapError::Overflow { offset: page_offset, size: len })?;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no existing memory.
        let base = unsafe {
            mmap(
                null_mut(),
                mapped.get(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                &socket,
                page_offset,
            )
        }
        .map_err(|errno| {
            let hint = "name an offset and a length that the socket has";
            MapError::System { call: "mmap", offset: page_offset, size: len, errno, hint }
        })?;
        Ok(Mapping {
            base: NonNull::new(base.cast()).expect("never mapped at zero"),
            mapped: mapped.get(),
            skip: 0,
            len: mapped.get(),
            shrinkable: Shrinkable::Sealed,
            guard: None,
        })
    }

    /// Maps a part of a peer's file. The file must be on a file system that the peer may use. The mapping is counted
    /// for the peer, and guarded against truncation.
    pub(crate) fn of_peer(
        peer: &Arc<PeerMemory>,
        fd: impl AsFd,
        offset: u64,
        len: u64,
    ) -> Result<Self, MapError> {
        let extent = Extent::of(&fd, offset, len)?;
        if peer.backing() == Backing::Ram && !extent.file_system.is_memory() {
            return Err(MapError::Backing { file_system: extent.file_system });
        }
        Self::guarded(peer, fd, &extent)
    }

    /// Maps a part of a file, counted for the peer and guarded against truncation.
    fn guarded(peer: &Arc<PeerMemory>, fd: impl AsFd, extent: &Extent) -> Result<Self, MapError> {
        let Extent { offset, len, .. } = *extent;
        peer.unmapper().start().map_err(|error| MapError::System {
            call: "clone",
            offset,
            size: len,
            errno: Errno::from_io_error(&error).unwrap_or(Errno::AGAIN),
            hint: "allow this process more threads (ulimit -u, TasksMax)",
        })?;
        let counted = peer.reserve(extent.mapped.get() as u64)?;
        let mut mapping = extent.map(&fd)?;
        let slot = register(mapping.base.as_ptr() as usize, mapping.mapped, extent.page as usize, peer);
        let slot = slot.ok_or(MapError::TooMany { limit: SLOTS, whose: "of all peers" })?;
        mapping.guard = Some(Guard { slot, file: OnceLock::new(), counted });
        Ok(mapping)
    }

    /// Counts the file of a peer's memory also after this mapping has ended ([`PeerMemory::kept_bytes`]). `file` is
    /// dropped when the memory is unmapped.
    pub fn count_file(&self, file: impl AsFd + Send + Sync + 'static) {
        let Some(guard) = &self.guard else { return };
        let (peer, bytes) = (Arc::clone(&guard.counted.peer), self.mapped as u64);
        let Some(files) = peer.kept_files() else { return };
        files.mapped(&file, bytes);
        let _ = guard.file.set(CountedFile { peer, file: Box::new(file), bytes });
    }

    /// Returns the mapped pages of a memory file to the system, also for other holders of the file. The pages read as
    /// zeros afterwards.
    ///
    /// # Errors
    /// `madvise(MADV_REMOVE)` is refused: the file system cannot punch holes, or the file is sealed against writing.
    pub fn discard(&self) -> std::io::Result<()> {
        // SAFETY: what is mapped is read and written by atomic and volatile accesses only, which see zeros.
        Ok(unsafe { madvise(self.base.as_ptr().cast(), self.mapped, Advice::LinuxRemove) }?)
    }

    /// Whether a peer's memory was replaced by zeros.
    pub fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.slot.is_lost())
    }

    /// The first requested byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        // SAFETY: `skip < mapped`, so the sum stays inside the mapping.
        unsafe { self.base.add(self.skip) }
    }

    /// The address of the first requested byte in this process, for a kernel that maps the memory for a device.
    pub fn address(&self) -> u64 {
        self.start().as_ptr() as u64
    }

    /// The number of requested bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len as u64
    }

    /// Whether the peer can still shorten the file.
    pub fn shrinkable(&self) -> Shrinkable {
        self.shrinkable
    }

    /// The address of `offset .. offset + len`, if that range is inside the mapping.
    pub(crate) fn at(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        let fits = offset <= self.len as u64 && len <= self.len as u64 - offset;
        // SAFETY: `offset + len <= self.len`, all of it inside the mapping.
        fits.then(|| unsafe { self.start().add(offset as usize) })
    }
}

impl PeerMemory {
    /// Maps `len` bytes of the peer's file `fd` from byte `offset` on, guarded against truncation and counted for
    /// the peer.
    ///
    /// # Errors
    /// The range is empty or overflows, or passes the end of the file; the descriptor is no regular file, is not
    /// open for reading and writing, or is sealed against writing; or `fstat`, `fcntl`, `fstatfs` or `mmap` is
    /// refused.
    ///
    /// The file is on a file system that can delay a page fault, and this peer may share memory files only. The
    /// peer's limit of mapped bytes or a limit of mappings is reached, or the unmapping thread cannot be started.
    pub fn map(self: &Arc<Self>, fd: impl AsFd, offset: u64, len: u64) -> Result<Mapping, MapError> {
        Mapping::of_peer(self, fd, offset, len)
    }

    /// Maps `len` bytes that a driver of this kernel offers at `offset` of a file that is no regular one, such as the
    /// bounce area of VDUSE. The mapping is counted for the peer. A page that the driver does not have is handled like
    /// one behind the end of a truncated file.
    ///
    /// # Errors
    /// The range is empty or overflows, or `fstatfs` or `mmap` is refused. The peer's limit of mapped bytes or a limit
    /// of mappings is reached, or the unmapping thread cannot be started.
    pub fn map_device(self: &Arc<Self>, fd: impl AsFd, offset: u64, len: u64) -> Result<Mapping, MapError> {
        let end = Extent::end(offset, len)?;
        let extent = Extent::pages(&fd, SealFlags::empty(), offset, end)?;
        Mapping::guarded(self, fd, &extent)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let pages = Pages { base: self.base, bytes: self.mapped };
        if let Some(Guard { slot, file, counted }) = self.guard.take() {
            slot.release();
            let peer = Arc::clone(&counted.peer);
            // The order matters: the pages count until they are unmapped.
            peer.unmapper().put((pages, file, counted));
        }
    }
}

/// A new memory file of `bytes` bytes, sealed against shrinking and growing: no holder can truncate it under a
/// mapping. A driver half shares such a file with its device.
///
/// # Errors
/// `memfd_create`, `ftruncate` or `fcntl(F_ADD_SEALS)` is refused, for example at the open-files limit.
pub fn sealed_memfd(name: &CStr, bytes: u64) -> std::io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

fn refused(call: &'static str, offset: u64, size: u64, errno: Errno) -> MapError {
    MapError::System { call, offset, size, errno, hint: "send an open, mappable file" }
}

/// The checked parameters of a mapping.
struct Extent {
    file_system: FileSystem,
    seals: SealFlags,
    /// Bytes of a page of the file.
    page: u64,
    /// The page-aligned offset in the file, and the number of bytes from there.
    start: u64,
    mapped: NonZeroUsize,
    offset: u64,
    len: u64,
}

impl Extent {
    fn end(offset: u64, len: u64) -> Result<u64, MapError> {
        if len == 0 {
            return Err(MapError::Empty { offset });
        }
        let end = offset.checked_add(len).filter(|&end| end <= i64::MAX as u64);
        end.ok_or(MapError::Overflow { offset, size: len })
    }

    fn of(fd: impl AsFd, offset: u64, len: u64) -> Result<Self, MapError> {
        let system = |call, errno| refused(call, offset, len, errno);
        let end = Self::end(offset, len)?;
        let status = fstat(&fd).map_err(|e| system("fstat", e))?;
        if !FileType::from_raw_mode(status.st_mode).is_file() {
            return Err(MapError::NotAFile);
        }
        let file_size = u64::try_from(status.st_size).unwrap_or(0);
        if file_size < end {
            return Err(MapError::FileTooShort { file_size, end });
        }
        let flags = fcntl_getfl(&fd).map_err(|e| system("fcntl", e))?;
        if flags & OFlags::ACCMODE != OFlags::RDWR {
            return Err(MapError::ReadOnly { why: "is not open for reading and writing" });
        }
        // A file that cannot be sealed has none.
        let seals = fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
            return Err(MapError::ReadOnly { why: "is sealed against writing" });
        }
        Self::pages(fd, seals, offset, end)
    }

    /// The whole pages around `offset .. end`.
    fn pages(fd: impl AsFd, seals: SealFlags, offset: u64, end: u64) -> Result<Self, MapError> {
        let len = end - offset;
        let (file_system, page) = FileSystem::of(&fd).map_err(|e| refused("fstatfs", offset, len, e))?;
        let start = offset & !(page - 1);
        let mapped = (end - start)
            .checked_next_multiple_of(page)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .and_then(NonZeroUsize::new)
            .ok_or(MapError::Overflow { offset, size: len })?;
        Ok(Extent { file_system, seals, page, start, mapped, offset, len })
    }

    fn map(&self, fd: impl AsFd) -> Result<Mapping, MapError> {
        let Extent { mapped, start, offset, len, .. } = *self;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no existing memory.
        let base = unsafe {
            mmap(
                null_mut(),
                mapped.get(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &fd,
                start,
            )
        }
        .map_err(|errno| {
            let hint = match errno {
                Errno::NOMEM => {
                    "the address space or the table of mappings is full: raise vm.max_map_count, or let peers share less"
                }
                _ => "send a file that can be mapped shared, for reading and writing",
            };
            MapError::System { call: "mmap", offset, size: len, errno, hint }
        })?;
        let sealed = self.seals.contains(SealFlags::SHRINK);
        Ok(Mapping {
            base: NonNull::new(base.cast()).expect("never mapped at zero"),
            mapped: mapped.get(),
            skip: (offset - start) as usize,
            len: len as usize,
            shrinkable: if sealed { Shrinkable::Sealed } else { Shrinkable::Possible },
            guard: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::truncate::tests::memfd;

    #[test]
    fn a_region_past_the_end_of_the_file_is_refused() {
        let file = memfd(8192);
        let error = Mapping::shared(&file, 4096, 4097).unwrap_err();
        assert!(matches!(error, MapError::FileTooShort { file_size: 8192, end: 8193 }), "{error}");
        assert!(matches!(Mapping::shared(&file, u64::MAX, 2), Err(MapError::Overflow { .. })));
        assert!(matches!(Mapping::shared(&file, 0, 0), Err(MapError::Empty { .. })));
    }

    #[test]
    fn an_offset_inside_a_page_is_honoured() {
        let file = memfd(8192);
        file.write_all_at(b"here", 5000).unwrap();
        let mapping = Mapping::shared(&file, 5000, 4).unwrap();
        let mut bytes = [0; 4];
        crate::SharedSlice::of_mapping(&mapping).read(&mut bytes);
        assert_eq!(&bytes, b"here");
        assert_eq!(mapping.shrinkable(), Shrinkable::Possible);
    }

    #[test]
    fn a_seal_is_noticed() {
        let file = memfd(4096);
        fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert_eq!(Mapping::shared(&file, 0, 4096).unwrap().shrinkable(), Shrinkable::Sealed);
    }
}
