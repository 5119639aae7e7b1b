//! The mock peer for tests, benches and fuzzing: a guest's memory with rings and buffers. Its other half may be
//! well-behaved ([`Arena::driver`], [`Arena::device`]) or not ([`Arena::ring_bytes`]).

pub mod fuzz;

use std::fs::File;
use std::sync::Arc;

use memory::{Address, AddressSpace, Region, RegionRange, SharedSlice, sealed_memfd};

use crate::{
    ActivateError, DeviceOptions, DeviceQueue, DriverQueue, Position, QueueConfig, RingFeatures, RingLayout,
};

/// Guest-physical address of the rings.
pub const RINGS: u64 = 0x1_0000;
/// Guest-physical address of the indirect tables.
pub const TABLES: u64 = 0x1000_0000;
/// Pieces per indirect table.
pub const TABLE_ENTRIES: u16 = 8;
/// Guest-physical address of the first of the two data regions. They are adjacent in guest memory, but not in this
/// process.
pub const DATA: u64 = 0x4000_0000;

/// A guest's memory with one queue in it.
pub struct Arena {
    /// The regions.
    pub space: Arc<AddressSpace>,
    /// The queue, as a front-end would announce it.
    pub config: QueueConfig,
    /// The files behind the regions: guest-physical address, bytes, file. For peers that map the files themselves.
    pub files: Vec<(u64, u64, File)>,
    data_bytes: u64,
    ring_bytes: u64,
}

/// A descriptor in the format of the ring. The two last words are `flags` and `next`, or `id` and `flags`.
pub fn descriptor(address: u64, len: u32, third: u16, fourth: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..14].copy_from_slice(&third.to_le_bytes());
    bytes[14..].copy_from_slice(&fourth.to_le_bytes());
    bytes
}

impl Arena {
    /// Memory for one queue and for two data regions, which have `data_bytes` bytes together.
    pub fn new(features: RingFeatures, size: u32, data_bytes: u64) -> Self {
        let entries = u64::from(size.max(1));
        let (driver, device, ring_bytes) = match features.layout {
            RingLayout::Split => {
                let driver = 16 * entries;
                let device = (driver + 6 + 2 * entries).next_multiple_of(4);
                (driver, device, device + 6 + 8 * entries)
            }
            RingLayout::Packed => (16 * entries, 16 * entries + 4, 16 * entries + 8),
        };
        let half = (data_bytes / 2).max(1).next_multiple_of(4096);
        let tables = 16 * u64::from(TABLE_ENTRIES) * entries;
        let mut user = 0x7f00_0000_0000;
        let mut files = Vec::new();
        let mut region = |guest, bytes: u64| {
            let bytes = bytes.next_multiple_of(4096);
            let file = sealed_memfd(c"mock guest", bytes).expect("the system gives memory files");
            // Out of line in the host, so that ranges across the two data regions must be split.
            user += bytes + 4096;
            let region = Region::map(
                &file,
                RegionRange { offset: 0, size: bytes, guest_base: guest, user_base: user },
            );
            files.push((guest, bytes, file));
            region.expect("the file is as long as the region")
        };
        let regions = [
            region(RINGS, ring_bytes),
            region(TABLES, tables),
            region(DATA, half),
            region(DATA + half, half),
        ];
        let space = AddressSpace::from_regions(regions).expect("the regions are apart");
        let config = QueueConfig {
            features,
            size,
            descriptors: Address::Guest(RINGS),
            driver_area: Address::Guest(RINGS + driver),
            device_area: Address::Guest(RINGS + device),
            position: Position::start(features.layout),
        };
        Arena { space: Arc::new(space), config, files, data_bytes: 2 * half, ring_bytes }
    }

    /// A well-behaved driver half. Making it clears the rings.
    pub fn driver(&self) -> Box<dyn DriverQueue> {
        let tables = self.config.features.indirect.then_some((Address::Guest(TABLES), TABLE_ENTRIES));
        self.config.activate_driver(&self.space, tables).expect("the mock's rings are sound")
    }

    /// A well-behaved device half.
    pub fn device(&self) -> Box<dyn DeviceQueue> {
        self.try_device().expect("the mock's rings are sound")
    }

    /// A device half, if size and position in `config` allow one.
    ///
    /// # Errors
    /// The size or the position in `config` is not one that the layout can have.
    pub fn try_device(&self) -> Result<Box<dyn DeviceQueue>, ActivateError> {
        self.config.activate_device(&self.space, DeviceOptions::default())
    }

    /// Bytes in the two data regions together.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The region that starts at a guest-physical address.
    fn region(&self, guest: u64) -> &Region {
        self.space.regions().iter().find(|region| region.guest_base() == guest).expect("a region of the mock")
    }

    /// All of the rings' memory, which may be overwritten freely.
    pub fn ring_bytes(&self) -> SharedSlice<'_> {
        SharedSlice::of_mapping(self.region(RINGS).mapping()).slice(0, self.ring_bytes as usize)
    }

    /// All of the indirect tables' memory.
    pub fn table_bytes(&self) -> SharedSlice<'_> {
        SharedSlice::of_mapping(self.region(TABLES).mapping())
    }

    /// Offset in [`Arena::ring_bytes`] of the driver's area.
    pub fn driver_area_offset(&self) -> usize {
        (self.config.driver_area.value() - RINGS) as usize
    }

    /// Offset in [`Arena::ring_bytes`] of the device's area.
    pub fn device_area_offset(&self) -> usize {
        (self.config.device_area.value() - RINGS) as usize
    }

    /// Writes bytes at an offset of the data regions, as the guest would.
    pub fn write_data(&self, offset: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            self.data_byte(offset + i as u64).write(&[*byte]);
        }
    }

    /// Reads bytes from an offset of the data regions.
    pub fn read_data(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (i, byte) in bytes.iter_mut().enumerate() {
            self.data_byte(offset + i as u64).read(std::slice::from_mut(byte));
        }
        bytes
    }

    fn data_byte(&self, offset: u64) -> SharedSlice<'_> {
        let half = self.data_bytes / 2;
        let (region, at) = if offset < half { (DATA, offset) } else { (DATA + half, offset - half) };
        SharedSlice::of_mapping(self.region(region).mapping()).slice(at as usize, 1)
    }
}
