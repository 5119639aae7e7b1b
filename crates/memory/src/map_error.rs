//! Why a file could not be mapped.

use rustix::io::Errno;

use crate::file_system::FileSystem;
use crate::size::Size;

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
    /// A socket, a device, a folder.
    #[error("the descriptor is no regular file; share a memory file (memfd_create, /dev/shm, hugetlbfs)")]
    NotAFile,
    /// A file system that can make a page fault wait.
    #[error(
        "the file is on {file_system}, where an access can be made to wait; share a memory file (a memfd, one in \
         /dev/shm or on hugetlbfs), or allow other files for this port"
    )]
    Backing {
        /// Its name, or its magic number.
        file_system: FileSystem,
    },
    /// A file that this end may not write.
    #[error("the file {why}, and rings and buffers are written here; share it for reading and writing")]
    ReadOnly {
        /// In what way.
        why: &'static str,
    },
    /// More than one peer may have mapped.
    #[error(
        "{size} more than the {held} that are mapped are beyond twice this peer's limit of {limit}; share less, or \
         raise the limit"
    )]
    OverLimit {
        /// The mapping, in whole pages.
        size: Size,
        /// What is mapped, a table that is being replaced included.
        held: Size,
        /// What may be in use at a time.
        limit: Size,
    },
    /// All that can be guarded are there.
    #[error("{limit} mappings {whose} are there already; share memory in fewer and larger regions")]
    TooMany {
        /// As many as there may be.
        limit: usize,
        /// Of one peer, or of all peers.
        whose: &'static str,
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
