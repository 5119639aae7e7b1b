//! Memory shared with a guest, a peer or the kernel.
//!
//! Another process, a guest or the kernel writes all of this memory while it is read. Three rules follow, and the
//! types enforce them (see `docs/decisions/peer-written-memory.md`):
//!
//! - No Rust reference is ever formed to plain peer-written bytes. They are reached through
//!   [`SharedSlice`], whose copies read each source byte exactly once. Ring words are atomics
//!   ([`AtomicSlice`]), which may be referenced because they may change at any time.
//! - An address from a peer becomes a pointer only through an [`AddressSpace`], which knows the mapped
//!   regions. An address outside of them is a [`Fault`], which has the address and the reason.
//! - Every holder of a pointer keeps the mapping alive. A region that is removed while frames are in flight is
//!   therefore unmapped when the last of them is done.
//!
//! The path of a buffer: a queue's [`Translator`] appends it to an [`SgArena`] as one or more [`SharedSlice`]s. The
//! worker copies from there to another guest's buffers ([`SgList::copy_to`]).
#![deny(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!(
    "VIRTIO 1 fields are little-endian and are accessed in place: big-endian hosts are not supported"
);

mod access;
mod ahead;
mod atomic_slice;
mod compare;
mod copy;
mod copy_sum;
mod demotion;
mod dirty;
mod drop_queue;
mod file_system;
mod file_watch;
mod iotlb;
mod kept_files;
mod lines;
mod map_error;
mod mapping;
mod non_temporal;
mod peer;
mod raw_run;
mod region;
mod sg_arena;
mod sg_list;
mod sg_run;
mod shared_slice;
mod size;
mod space;
mod translate;
mod truncate;
mod wide;
mod word;

pub use access::{Access, Fault};
pub use atomic_slice::{AtomicData, AtomicSlice, BindError};
pub use copy_sum::Summed;
pub use demotion::Demotion;
pub use dirty::{DirtyLog, LogTooSmall, PAGE_BYTES as DIRTY_PAGE_BYTES};
pub use drop_queue::{Deferred, DropQueue};
pub use file_system::FileSystem;
pub use iotlb::{Iotlb, IotlbEntry, IotlbError};
pub use lines::{LINE_BYTES, prefetch};
pub use map_error::MapError;
pub use mapping::{Mapping, Shrinkable, sealed_memfd};
pub use non_temporal::NonTemporal;
pub use peer::{Backing, Loss, LossCause, PeerMemory};
pub use region::{Region, RegionError, RegionRange};
pub use sg_arena::SgArena;
pub use sg_list::SgList;
pub use sg_run::SgRun;
pub use shared_slice::SharedSlice;
pub use size::{MAX_REGIONS, Size};
pub use space::{Address, AddressSpace, SpaceError};
pub use translate::{SgBuilder, Translator};
pub use truncate::{TruncationGuard, lost_mappings};
