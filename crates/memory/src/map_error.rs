//! Why a file could not be mapped.

use rustix::io::Errno;

use crate::file_system::FileSystem;
use crate::size::Size;

/// Why a file could not be mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The region has no bytes.
    #[error("asked to map 0 bytes at file offset {offset:#x}; a region needs at least one byte")]
    Empty {
        /// The offset in the file.
        offset: u64,
    },
    /// Offset and size exceed the address space.
    #[error("file offset {offset:#x} plus {size:#x} bytes overflows; send offset and size that fit 63 bits")]
    Overflow {
        /// The offset in the file.
        offset: u64,
        /// The requested size in bytes.
        size: u64,
    },
    /// The file ends before the region does. Accessing the rest would raise SIGBUS.
    #[error(
        "the file holds {file_size:#x} bytes but the region ends at {end:#x}; grow the file before sharing it"
    )]
    FileTooShort {
        /// Bytes in the file.
        file_size: u64,
        /// First byte after the region, as an offset in the file.
        end: u64,
    },
    /// The descriptor is a socket, a device or a folder.
    #[error("the descriptor is no regular file; share a memory file (memfd_create, /dev/shm, hugetlbfs)")]
    NotAFile,
    /// The file is on a file system that can delay a page fault.
    #[error(
        "the file is on {file_system}, where an access can be made to wait; share a memory file (a memfd, one in \
         /dev/shm or on hugetlbfs), or allow other files for this port"
    )]
    Backing {
        /// The file system's name, or its magic number.
        file_system: FileSystem,
    },
    /// This process may not write the file.
    #[error("the file {why}, and rings and buffers are written here; share it for reading and writing")]
    ReadOnly {
        /// The reason.
        why: &'static str,
    },
    /// The peer has reached its limit of mapped memory.
    #[error(
        "{size} more than the {held} that are mapped are beyond twice this peer's limit of {limit}; share less, or \
         raise the limit"
    )]
    OverLimit {
        /// The size of the mapping, in whole pages.
        size: Size,
        /// The mapped memory so far, including a table that is being replaced.
        held: Size,
        /// The limit of what may be in use at a time.
        limit: Size,
    },
    /// The limit of guarded mappings is reached.
    #[error("{limit} mappings {whose} are there already; share memory in fewer and larger regions")]
    TooMany {
        /// The limit.
        limit: usize,
        /// Whether the limit is of one peer, or of all peers.
        whose: &'static str,
    },
    /// A system call failed.
    #[error("{call} of {size:#x} bytes at file offset {offset:#x} failed: {errno}; {hint}")]
    System {
        /// The call.
        call: &'static str,
        /// The offset in the file.
        offset: u64,
        /// The requested size in bytes.
        size: u64,
        /// What the system answered.
        errno: Errno,
        /// What the user can do.
        hint: &'static str,
    },
}
