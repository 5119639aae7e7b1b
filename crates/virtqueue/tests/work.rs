//! What one driver can make a device do at once has a limit: descriptors of a chain, pieces of its buffers, chains of
//! a call, memory that stays.

use std::sync::Arc;

use memory::{Address, AddressSpace, Region, RegionRange, SharedSlice, sealed_memfd};
use virtqueue::{
    Burst, DeviceOptions, DeviceQueue, Malformed, PopError, Position, QueueConfig, RingFeatures, RingLayout,
};

const NEXT: u16 = 1;
const INDIRECT: u16 = 4;
/// Available in the first pass of a packed ring.
const AVAIL: u16 = 1 << 7;

const RINGS: u64 = 0;
const RINGS_BYTES: u64 = 0x20_0000;
const TABLE: u64 = 0x20_0000;
const TABLE_BYTES: u64 = 0x10_0000;
/// Pages of data: a region each, one behind the other, all of the same bytes.
const DATA: u64 = 0x40_0000;
const PAGES: u64 = 500;

struct Guest {
    space: Arc<AddressSpace>,
    layout: RingLayout,
    size: u16,
}

impl Guest {
    fn new(layout: RingLayout, size: u16) -> Self {
        let region = |at, bytes| {
            Region::map(sealed_memfd(c"guest", bytes).unwrap(), RegionRange::at(at, bytes)).unwrap()
        };
        let page = sealed_memfd(c"page", 4096).unwrap();
        let pages = (0..PAGES).map(|i| {
            let at = DATA + 4096 * i;
            Region::map(&page, RegionRange::at(at, 4096)).unwrap()
        });
        let regions = [region(RINGS, RINGS_BYTES), region(TABLE, TABLE_BYTES)].into_iter().chain(pages);
        Guest { space: Arc::new(AddressSpace::from_regions(regions).unwrap()), layout, size }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let index = usize::from(at >= TABLE);
        let offset = at - [RINGS, TABLE][index];
        SharedSlice::of_mapping(self.space.regions()[index].mapping())
            .slice(offset as usize, bytes.len())
            .write(bytes);
    }

    fn driver_area(&self) -> u64 {
        RINGS + 16 * u64::from(self.size)
    }

    fn device(&self) -> Box<dyn DeviceQueue> {
        let config = QueueConfig {
            features: RingFeatures { indirect: true, ..RingFeatures::plain(self.layout) },
            size: self.size.into(),
            descriptors: Address::Guest(RINGS),
            driver_area: Address::Guest(self.driver_area()),
            device_area: Address::Guest(self.driver_area() + 0x10_0000),
            position: Position::start(self.layout),
        };
        config.activate_device(&self.space, DeviceOptions::default()).unwrap()
    }

    /// One descriptor in the ring or in a table; `id` is the next one's index in a split ring.
    fn descriptor(&self, at: u64, address: u64, len: u32, flags: u16, next: u16) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        let last = if self.layout == RingLayout::Split { [flags, next] } else { [next, flags] };
        bytes[12..14].copy_from_slice(&last[0].to_le_bytes());
        bytes[14..].copy_from_slice(&last[1].to_le_bytes());
        self.write(at, &bytes);
    }

    /// One chain of so many descriptors in the ring.
    fn chain(&self, count: u16) {
        for i in 0..count {
            let next = if i + 1 < count { NEXT } else { 0 };
            let flags = if self.layout == RingLayout::Packed { next | AVAIL } else { next };
            let link = if self.layout == RingLayout::Packed { 0 } else { i + 1 };
            self.descriptor(RINGS + 16 * u64::from(i), DATA, 4, flags, link);
        }
        if self.layout == RingLayout::Split {
            self.write(self.driver_area(), &[0, 0, 1, 0, 0, 0]);
        }
    }

    /// Every slot is a chain of its own, and all of them are the same table.
    fn tables(&self, entries: u32, entry: impl Fn(u32) -> (u64, u32)) {
        for i in 0..entries {
            let (address, len) = entry(i);
            let more = self.layout == RingLayout::Split && i + 1 < entries;
            self.descriptor(
                TABLE + 16 * u64::from(i),
                address,
                len,
                if more { NEXT } else { 0 },
                if more { i as u16 + 1 } else { 0 },
            );
        }
        for i in 0..self.size {
            let flags = if self.layout == RingLayout::Packed { INDIRECT | AVAIL } else { INDIRECT };
            let id = if self.layout == RingLayout::Packed { i } else { 0 };
            self.descriptor(RINGS + 16 * u64::from(i), TABLE, 16 * entries, flags, id);
            if self.layout == RingLayout::Split {
                self.write(self.driver_area() + 4 + 2 * u64::from(i), &i.to_le_bytes());
            }
        }
        if self.layout == RingLayout::Split {
            self.write(self.driver_area() + 2, &self.size.to_le_bytes());
        }
    }
}

const BOTH: [RingLayout; 2] = [RingLayout::Split, RingLayout::Packed];

fn rule(result: Result<usize, PopError>) -> Malformed {
    match result {
        Err(PopError::Malformed(error)) => error.rule,
        other => panic!("{other:?}"),
    }
}

/// As QEMU and Linux have it: 1024 are served, one more is refused, however long the queue is.
#[test]
fn a_chain_has_at_most_1024_descriptors() {
    for layout in BOTH {
        let guest = Guest::new(layout, 2048);
        guest.chain(1024);
        let mut burst = Burst::new(4);
        assert_eq!(guest.device().pop(&mut burst, 4), Ok(1), "{layout:?}");
        assert_eq!(burst.chain(0).readable().len(), 1024);
        guest.chain(1025);
        assert_eq!(rule(guest.device().pop(&mut burst, 4)), Malformed::ChainTooLong, "{layout:?}");
        guest.tables(1024, |_| (DATA, 4));
        assert!(guest.device().pop(&mut burst, 4).is_ok(), "{layout:?}");
        guest.tables(1025, |_| (DATA, 4));
        assert_eq!(rule(guest.device().pop(&mut burst, 4)), Malformed::IndirectTableSize, "{layout:?}");
    }
}

/// 1024 descriptors of 500 pages each, every page in a region of its own: half a million pieces.
#[test]
fn a_chain_has_at_most_2048_pieces() {
    for layout in BOTH {
        let guest = Guest::new(layout, 64);
        guest.tables(1024, |_| (DATA, 4096 * PAGES as u32));
        let mut burst = Burst::new(32);
        assert_eq!(rule(guest.device().pop(&mut burst, 32)), Malformed::TooManyPieces, "{layout:?}");
        // What drivers do with memory in many regions is served: 64 KiB in as many as there are.
        guest.tables(1, |_| (DATA + 100, 0x1_0000));
        let mut device = guest.device();
        assert_eq!(device.pop(&mut burst, 32), Ok(32), "{layout:?}");
        assert_eq!(burst.chain(0).readable().len(), 17);
    }
}

/// Long chains come a few at a time; all of them come, and in order.
#[test]
fn a_call_ends_early_where_chains_are_much_work() {
    // Pieces that hold something, and such that hold nothing but must be looked at.
    let full: fn(u32) -> (u64, u32) = |i| (DATA + 64 * u64::from(i % 32), 64);
    let empty: fn(u32) -> (u64, u32) = |i| (DATA, if i == 1023 { 64 } else { 0 });
    // One descriptor, which reaches over 500 regions.
    let wide: fn(u32) -> (u64, u32) = |_| (DATA, 4096 * PAGES as u32);
    for (entries, entry) in [(1024, full), (1024, empty), (1, wide)] {
        for layout in BOTH {
            let guest = Guest::new(layout, 256);
            guest.tables(entries, entry);
            let (mut device, mut burst) = (guest.device(), Burst::new(256));
            let (mut taken, mut calls) = (0, 0);
            while taken < 256 {
                let before = burst.work();
                let now = device.pop(&mut burst, 256).unwrap();
                assert!(now > 0, "at least one");
                let work = burst.work() - before;
                assert!(work < 2 * 4096, "{layout:?}: {work} of work in one call, {now} chains");
                assert!(burst.arena().len() < 2 * 4096, "{layout:?}: {} pieces", burst.arena().len());
                assert_eq!(usize::from(burst.chain(0).id()), taken);
                device.add_used_all(&mut burst);
                (taken, calls) = (taken + now, calls + 1);
            }
            println!("{layout:?}: 256 chains in {calls} calls");
            assert!(calls >= 16, "{calls}");
        }
    }
}

/// Ordinary chains are not held up: 64 frames of 64 KiB in pages.
#[test]
fn ordinary_long_chains_come_all_at_once() {
    for layout in BOTH {
        let guest = Guest::new(layout, 64);
        guest.tables(18, |i| (DATA + 4096 * u64::from(i), 4096));
        let mut burst = Burst::new(64);
        assert_eq!(guest.device().pop(&mut burst, 64), Ok(64), "{layout:?}");
    }
}
