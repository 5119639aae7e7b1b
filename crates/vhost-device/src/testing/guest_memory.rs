//! For tests: the memory of a guest, with the positions of its rings and buffers.
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::{AddressSpace, Region, RegionRange, SharedSlice, sealed_memfd};
use rustix::event::{EventfdFlags, eventfd};
use vhost_user::codec::payload::{MemoryRegion, MemoryTable, VringAddress};

/// Guest-physical address of the region with the rings.
pub const RINGS: u64 = 0x10_0000;
/// Its size.
pub const RINGS_BYTES: u64 = 0x10_0000;
/// Guest-physical address of the buffers.
pub const DATA: u64 = 0x100_0000;
/// Their size.
pub const DATA_BYTES: u64 = 0x40_0000;
/// The difference between guest-physical and front-end addresses.
pub const USER: u64 = 0x7f00_0000_0000;
/// An eventfd for a kick or call.
pub fn event_fd() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd")
}

/// A region at this guest-physical address.
pub fn region(guest_address: u64, size_bytes: u64) -> MemoryRegion {
    MemoryRegion { guest_address, size_bytes, user_address: USER + guest_address, mmap_offset: 0 }
}

/// The guest addresses of a ring's parts: descriptors, driver area, device area.
pub fn ring_at(index: u8) -> (u64, u64, u64) {
    let base = RINGS + 0x1_0000 * u64::from(index);
    (base, base + 0x8000, base + 0xa000)
}

/// The addresses of a ring, as in SET_VRING_ADDR.
pub fn ring_addresses(index: u8) -> VringAddress {
    let (descriptor, driver, device) = ring_at(index);
    VringAddress {
        index: index.into(),
        log_used: false,
        descriptor: USER + descriptor,
        used: USER + device,
        available: USER + driver,
        log: 0,
    }
}

/// Memory files that are mapped here and can be shared.
#[derive(Debug)]
pub struct GuestMemory {
    /// The memory by guest addresses.
    pub space: Arc<AddressSpace>,
    /// The regions, each with its file.
    pub regions: Vec<(MemoryRegion, File)>,
}

impl GuestMemory {
    /// Makes a file for each of these address ranges, given by start and length. The name appears in `/proc`.
    pub fn new(name: &CStr, ranges: &[(u64, u64)]) -> Self {
        let file = |bytes| sealed_memfd(name, bytes).expect("a memory file");
        let regions: Vec<_> = ranges.iter().map(|&(at, bytes)| (region(at, bytes), file(bytes))).collect();
        let mapped = regions.iter().map(|(region, file)| {
            let MemoryRegion { guest_address, size_bytes, user_address, .. } = *region;
            Region::map(
                file,
                RegionRange {
                    offset: 0,
                    size: size_bytes,
                    guest_base: guest_address,
                    user_base: user_address,
                },
            )
            .expect("a mapping")
        });
        let space = AddressSpace::from_regions(mapped).expect("ranges that do not overlap");
        GuestMemory { space: Arc::new(space), regions }
    }

    /// The table of all regions, and their files.
    pub fn table(&self) -> (MemoryTable, Vec<OwnedFd>) {
        let files = self.regions.iter().map(|(_, file)| file.try_clone().expect("a descriptor").into());
        let regions = self.regions.iter().map(|(region, _)| *region).collect();
        (MemoryTable { regions }, files.collect())
    }

    /// The bytes at a guest-physical address, at most to the end of its region.
    pub fn slice(&self, at: u64, len: usize) -> SharedSlice<'_> {
        let region = self.space.regions().iter().rev().find(|region| region.guest_base() <= at);
        let region = region.expect("an address in the guest's memory");
        let slice = SharedSlice::of_mapping(region.mapping());
        slice.slice((at - region.guest_base()) as usize, len)
    }

    /// Writes bytes at a guest-physical address, also across regions.
    pub fn write(&self, mut at: u64, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let count = self.slice(at, left.len()).write(left);
            assert!(count > 0, "outside the guest's memory");
            (at, left) = (at + count as u64, &left[count..]);
        }
    }

    /// Reads bytes at a guest-physical address, also across regions.
    pub fn read(&self, mut at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            let count = self.slice(at, len - done).read(&mut bytes[done..]);
            assert!(count > 0, "outside the guest's memory");
            (at, done) = (at + count as u64, done + count);
        }
        bytes
    }
}
