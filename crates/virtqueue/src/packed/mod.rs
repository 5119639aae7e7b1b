//! The packed ring (VIRTIO 1.3 §2.8): one ring of descriptors that both sides write.

mod device;
mod driver;
mod recover;
mod ring;
mod walk;

pub use device::PackedDevice;
pub use driver::PackedDriver;
pub(crate) use recover::{Standing, standing};
pub use ring::{Event, MappedPacked, PackedDescriptor, PackedRing};

/// Descriptor flags (§2.8.1, §2.8.5).
pub(crate) mod flags {
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const INDIRECT: u16 = 4;
    pub const AVAIL: u16 = 1 << 7;
    pub const USED: u16 = 1 << 15;

    /// The two wrap bits of an available descriptor: AVAIL equals the driver's wrap counter, USED is its inverse.
    #[inline(always)]
    pub const fn available(wrap: bool) -> u16 {
        if wrap { AVAIL } else { USED }
    }

    /// The two wrap bits of a used descriptor: both equal the device's wrap counter.
    #[inline(always)]
    pub const fn used(wrap: bool) -> u16 {
        if wrap { AVAIL | USED } else { 0 }
    }

    pub const WRAP_BITS: u16 = AVAIL | USED;
}

/// Values of an event suppression structure's flags (§2.8.10).
pub(crate) mod event {
    pub const ENABLE: u16 = 0;
    pub const DISABLE: u16 = 1;
    pub const AT_DESCRIPTOR: u16 = 2;
}
