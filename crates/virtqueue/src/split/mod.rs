//! The split ring (VIRTIO 1.3 §2.7): descriptor table, available ring, used ring.

mod demote;
mod device;
mod driver;
mod ring;
mod start;
mod walk;

pub use device::SplitDevice;
pub use driver::SplitDriver;
pub use ring::{MappedSplit, SplitDescriptor, SplitRing, UsedElement};

/// Descriptor flags (§2.7.5).
pub(crate) mod flags {
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const INDIRECT: u16 = 4;
}

/// `VIRTQ_AVAIL_F_NO_INTERRUPT` and `VIRTQ_USED_F_NO_NOTIFY` (§2.7.6, §2.7.8).
pub(crate) const NO_NOTIFICATION: u16 = 1;
