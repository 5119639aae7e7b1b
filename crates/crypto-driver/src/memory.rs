//! One file with a ring and the buffers of its requests. The device maps it.
use std::fs::File;
use std::sync::Arc;

use memory::{Address, AddressSpace, Region, RegionRange, SharedSlice, sealed_memfd};
use virtqueue::{Piece, Position, QueueConfig, RingFeatures};

use crate::error::{DriverError, system};

/// The start of the memory, in guest addresses and in front-end addresses.
pub(crate) const BASE: u64 = 1 << 32;
/// Descriptors of the ring: enough for [`MOST_SLOTS`](crate::connect::MOST_SLOTS) requests without indirect tables.
const QUEUE_SIZE: u16 = 1024;
/// A page: each part begins on one.
const PAGE: u64 = 4096;

/// The layout of the memory, as offsets from [`BASE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Descriptors of each indirect table.
    pub table_entries: u16,
    pub slots: u16,
    pub request_bytes: usize,
    pub result_bytes: usize,
}

impl Plan {
    const DESCRIPTORS: u64 = 0;
    const DRIVER: u64 = 16 * QUEUE_SIZE as u64;
    const DEVICE: u64 = Self::DRIVER + PAGE;
    const TABLES: u64 = Self::DEVICE + 3 * PAGE;

    fn slots_at(&self) -> u64 {
        let tables = 16 * u64::from(self.table_entries) * u64::from(QUEUE_SIZE);
        Self::TABLES + tables.next_multiple_of(PAGE)
    }

    fn request_room(&self) -> u64 {
        (self.request_bytes as u64).next_multiple_of(PAGE)
    }

    /// A result and its status.
    fn result_room(&self) -> u64 {
        (self.result_bytes as u64 + 1).next_multiple_of(PAGE)
    }

    fn stride(&self) -> u64 {
        self.request_room() + self.result_room()
    }

    fn bytes(&self) -> u64 {
        self.slots_at() + self.stride() * u64::from(self.slots)
    }

    /// The address of a slot's request.
    pub fn request_at(&self, slot: u16) -> u64 {
        self.slots_at() + self.stride() * u64::from(slot)
    }

    /// The address of a slot's result.
    pub fn result_at(&self, slot: u16) -> u64 {
        self.request_at(slot) + self.request_room()
    }
}

/// The mapped file.
pub(crate) struct Memory {
    pub plan: Plan,
    pub file: File,
    pub bytes: u64,
    pub space: Arc<AddressSpace>,
}

impl Memory {
    pub fn new(plan: Plan) -> Result<Self, DriverError> {
        let bytes = plan.bytes();
        let file =
            sealed_memfd(c"tautline crypto driver", bytes).map_err(system("make the memory of a driver"))?;
        let region = Region::map(&file, RegionRange::at(BASE, bytes))?;
        let space = Arc::new(AddressSpace::from_regions([region])?);
        Ok(Self { plan, file, bytes, space })
    }

    /// The configuration of the ring, as the device is told it.
    pub fn config(&self, features: RingFeatures) -> QueueConfig {
        QueueConfig {
            features,
            size: QUEUE_SIZE.into(),
            descriptors: Address::User(BASE + Plan::DESCRIPTORS),
            driver_area: Address::User(BASE + Plan::DRIVER),
            device_area: Address::User(BASE + Plan::DEVICE),
            position: Position::start(features.layout),
        }
    }

    /// The address of indirect tables, and the descriptors of each.
    pub fn tables(&self) -> (Address, u16) {
        (Address::User(BASE + Plan::TABLES), self.plan.table_entries)
    }

    pub fn slice(&self, offset: u64, len: usize) -> SharedSlice<'_> {
        SharedSlice::of_mapping(self.space.regions()[0].mapping()).slice(offset as usize, len)
    }
}

/// Divides bytes into `count` pieces of about the same length, none of them empty.
pub(crate) fn pieces(at: u64, bytes: usize, count: u16) -> Vec<Piece> {
    let count = usize::from(count).clamp(1, bytes.max(1));
    let borders = (0..=count).map(|piece| bytes * piece / count).collect::<Vec<_>>();
    let piece =
        |range: &[usize]| Piece { address: BASE + at + range[0] as u64, len: (range[1] - range[0]) as u32 };
    borders.windows(2).map(piece).filter(|piece| piece.len > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_about_the_same_length_and_lie_behind_each_other() {
        for (bytes, count) in [(0, 3), (1, 3), (72, 1), (100, 3), (7, 7)] {
            let pieces = pieces(64, bytes, count);
            assert!(pieces.len() <= usize::from(count));
            let mut at = BASE + 64;
            for piece in &pieces {
                assert!(piece.address == at && piece.len > 0);
                at += u64::from(piece.len);
            }
            assert_eq!(at, BASE + 64 + bytes as u64);
        }
    }
}
