//! One shared mapping of a file: memfd, hugetlbfs or plain file, any page size.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::fstat;
use nix::sys::statfs::{HUGETLBFS_MAGIC, fstatfs};

/// Why a file could not be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// A region of no bytes.
    #[error("asked to map 0 bytes at file offset {offset:#x}; a region needs at least one byte")]
    Empty {
        /// Where in the file.
        offset: u64,
    },
    /// Offset and size go beyond what an address can name.
    #[error("file offset {offset:#x} plus {size:#x} bytes overflows; send offset and size that fit 63 bits")]
    Overflow {
        /// Where in the file.
        offset: u64,
        /// Bytes asked for.
        size: u64,
    },
    /// The file ends before the region does; touching the rest would raise SIGBUS.
    #[error(
        "the file holds {file_size:#x} bytes but the region ends at {end:#x}; grow the file before sharing it"
    )]
    FileTooShort {
        /// Bytes in the file.
        file_size: u64,
        /// First byte after the region, as an offset in the file.
        end: u64,
    },
    /// A system call failed.
    #[error("{call} of {size:#x} bytes at file offset {offset:#x} failed: {errno}; {hint}")]
    System {
        /// The call.
        call: &'static str,
        /// Where in the file.
        offset: u64,
        /// Bytes asked for.
        size: u64,
        /// The system's answer.
        errno: Errno,
        /// What to do.
        hint: &'static str,
    },
}

/// Whether the peer can still take memory away under the mapping (`ftruncate`), and so cause SIGBUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrinkable {
    /// `F_SEAL_SHRINK` is set: the file can never become shorter.
    Sealed,
    /// A memfd without the seal, or a file that cannot be sealed. [`crate::TruncationGuard`] covers it.
    Possible,
}

/// A shared, readable and writable mapping, unmapped when the last holder lets go.
#[derive(Debug)]
pub struct Mapping {
    /// Page-aligned start and length of what was mapped.
    base: NonNull<u8>,
    mapped: usize,
    /// The asked-for bytes lie at `base + skip .. + len`.
    skip: usize,
    len: usize,
    shrinkable: Shrinkable,
}

// SAFETY: the mapping is plain memory owned by this value until drop; every access through it is atomic
// or volatile, so threads may share it.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method of a shared `Mapping` hands out a reference to non-atomic bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`, shared.
    ///
    /// The file must already be long enough: what lies past its end cannot be touched without SIGBUS, so
    /// it is refused here. Offset and length need no alignment: the mapping is widened to whole pages of
    /// the file's own size (2 MiB or 1 GiB on hugetlbfs), because the kernel demands that there.
    pub fn shared(fd: impl AsFd, offset: u64, len: u64) -> Result<Self, MapError> {
        let system = |call, errno, hint| MapError::System { call, offset, size: len, errno, hint };
        if len == 0 {
            return Err(MapError::Empty { offset });
        }
        let end = offset
            .checked_add(len)
            .filter(|&end| end <= i64::MAX as u64)
            .ok_or(MapError::Overflow { offset, size: len })?;
        let status = fstat(&fd).map_err(|e| system("fstat", e, "send an open, mappable file"))?;
        let file_size = u64::try_from(status.st_size).unwrap_or(0);
        if file_size < end {
            return Err(MapError::FileTooShort { file_size, end });
        }
        let page = page_bytes(&fd).map_err(|e| system("fstatfs", e, "send an open, mappable file"))?;
        let start = offset & !(page - 1);
        let mapped = (end - start)
            .checked_next_multiple_of(page)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .and_then(NonZeroUsize::new)
            .ok_or(MapError::Overflow { offset, size: len })?;
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no existing memory.
        let base = unsafe {
            mmap(
                None,
                mapped,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE,
                &fd,
                start as i64,
            )
        }
        .map_err(|e| system("mmap", e, "send a file opened for reading and writing"))?;
        let mapping = Mapping {
            base: base.cast(),
            mapped: mapped.get(),
            skip: (offset - start) as usize,
            len: len as usize,
            shrinkable: match fcntl(&fd, FcntlArg::F_GET_SEALS) {
                Ok(seals) if SealFlag::from_bits_truncate(seals).contains(SealFlag::F_SEAL_SHRINK) => {
                    Shrinkable::Sealed
                }
                _ => Shrinkable::Possible,
            },
        };
        crate::truncate::register(mapping.base.as_ptr() as usize, mapping.mapped, page as usize);
        Ok(mapping)
    }

    /// First byte that was asked for.
    pub(crate) fn start(&self) -> NonNull<u8> {
        // SAFETY: `skip < mapped`, so the sum stays inside the mapping.
        unsafe { self.base.add(self.skip) }
    }

    /// Bytes that were asked for.
    pub fn len_bytes(&self) -> u64 {
        self.len as u64
    }

    /// Whether the peer can still shorten the file.
    pub fn shrinkable(&self) -> Shrinkable {
        self.shrinkable
    }

    /// Where `offset .. offset + len` lies, if it is inside.
    pub(crate) fn at(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        let fits = offset <= self.len as u64 && len <= self.len as u64 - offset;
        // SAFETY: `offset + len <= self.len`, all of it inside the mapping.
        fits.then(|| unsafe { self.start().add(offset as usize) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        crate::truncate::unregister(self.base.as_ptr() as usize);
        // SAFETY: this value owns the mapping, and everything that holds a pointer into it holds an `Arc`
        // of this value.
        let _ = unsafe { munmap(self.base.cast(), self.mapped) };
    }
}

/// A new memory file of `bytes`, sealed so that nobody can take memory away under a mapping of it: what a
/// driver half shares with its device.
pub fn sealed_memfd(name: &CStr, bytes: u64) -> std::io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags)?);
    file.set_len(bytes)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
    Ok(file)
}

/// The page size that mappings of this file are made of.
fn page_bytes(fd: impl AsFd) -> Result<u64, Errno> {
    let status = fstatfs(fd)?;
    let base = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?.unwrap_or(4096) as u64;
    let hugetlbfs = status.filesystem_type() == HUGETLBFS_MAGIC;
    Ok(if hugetlbfs { (status.block_size() as u64).max(base) } else { base })
}

#[cfg(test)]
mod tests {
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
        nix::sys::uio::pwrite(&file, b"here", 5000).unwrap();
        let mapping = Mapping::shared(&file, 5000, 4).unwrap();
        let mut bytes = [0; 4];
        crate::SharedSlice::of_mapping(&mapping).read(&mut bytes);
        assert_eq!(&bytes, b"here");
        assert_eq!(mapping.shrinkable(), Shrinkable::Possible);
    }

    #[test]
    fn a_seal_is_noticed() {
        let file = memfd(4096);
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        assert_eq!(Mapping::shared(&file, 0, 4096).unwrap().shrinkable(), Shrinkable::Sealed);
    }
}
