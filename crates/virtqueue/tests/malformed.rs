//! One malformed ring per rule: the error names section, place and value, what came before is served, and
//! the ring stays stopped.

use virtqueue::mock::{Arena, DATA, TABLES, descriptor};
use virtqueue::{Buffer, Burst, Direction, Malformed, Place, PopError, RingError, RingFeatures, RingLayout};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Available in the first pass of a packed ring.
const AVAIL: u16 = 1 << 7;

fn split() -> RingFeatures {
    RingFeatures { indirect: true, ..RingFeatures::plain(RingLayout::Split) }
}

fn packed() -> RingFeatures {
    RingFeatures { indirect: true, ..RingFeatures::plain(RingLayout::Packed) }
}

/// A split ring of 8 with one good chain (head 7) before the given descriptors, of which 0 is the head.
fn split_ring(features: RingFeatures, descriptors: &[(u64, u32, u16, u16)]) -> Arena {
    let arena = Arena::new(features, 8, 8192);
    let ring = arena.ring_bytes();
    for (i, &(address, len, flags, next)) in descriptors.iter().enumerate() {
        ring.slice(16 * i, 16).write(&descriptor(address, len, flags, next));
    }
    ring.slice(16 * 7, 16).write(&descriptor(DATA, 1, 0, 0));
    let driver = arena.driver_area_offset();
    ring.slice(driver, 8).write(&[0, 0, 2, 0, 7, 0, 0, 0]);
    arena
}

/// A packed ring of 8 with one good slot before the given ones.
fn packed_ring(features: RingFeatures, slots: &[(u64, u32, u16, u16)]) -> Arena {
    let arena = Arena::new(features, 8, 8192);
    let all = [(DATA, 1, 7, 0)].into_iter().chain(slots.iter().copied());
    for (i, (address, len, id, flags)) in all.enumerate() {
        arena.ring_bytes().slice(16 * i, 16).write(&descriptor(address, len, id, flags | AVAIL));
    }
    arena
}

/// The good chain comes, then the error, then the same error for ever.
fn refused(arena: &Arena) -> RingError {
    let mut device = arena.device();
    let mut burst = Burst::new(8);
    assert_eq!(device.pop(&mut burst, 8), Ok(1), "the good chain before it is served");
    let Err(PopError::Malformed(error)) = device.pop(&mut burst, 8) else { panic!("not refused") };
    device.add_used_all(&mut burst);
    assert_eq!(burst.open(), 0, "what was taken can still be completed");
    assert_eq!(device.pop(&mut burst, 8), Err(error.into()), "a broken ring stays stopped");
    assert_eq!(device.broken(), Some(error));
    let text = error.to_string();
    assert!(text.contains("§2.7") || text.contains("§2.8"), "{text}");
    error
}

fn error(rule: Malformed, place: Place, value: u64) -> RingError {
    RingError { rule, place, value }
}

#[test]
fn split_chains() {
    use Malformed::*;
    let check =
        |descriptors: &[_], expected| assert_eq!(refused(&split_ring(split(), descriptors)), expected);
    // §2.7.5: a loop of two.
    check(&[(DATA, 1, NEXT, 1), (DATA, 1, NEXT, 0)], error(ChainTooLong, Place::Descriptor(0), 8));
    check(&[(DATA, 1, NEXT, 8)], error(DescriptorOutOfRange, Place::Descriptor(0), 8));
    check(
        &[(DATA, 1, NEXT | WRITE, 1), (DATA + 5, 1, 0, 0)],
        error(ReadableAfterWritable, Place::Descriptor(1), DATA + 5),
    );
    check(&[(DATA + 8190, 3, 0, 0)], error(OutsideMemory, Place::Descriptor(0), DATA + 8192));
    check(&[(u64::MAX, 2, 0, 0)], error(OutsideMemory, Place::Descriptor(0), u64::MAX));
    check(&[(0, 1, WRITE, 0)], error(OutsideMemory, Place::Descriptor(0), 0));
}

/// Lengths that overflow are refused whatever the addresses; only a region of 4 GiB can show it.
#[test]
fn a_chain_of_four_gib_is_refused() {
    let (arena, len) = (split_ring(split(), &[]), u32::MAX);
    let ring = arena.ring_bytes();
    ring.slice(0, 16).write(&descriptor(DATA, 8192, NEXT, 1));
    ring.slice(16, 16).write(&descriptor(DATA, len, 0, 0));
    assert_eq!(refused(&arena), error(Malformed::LengthOverflow, Place::Descriptor(1), len.into()));
}

#[test]
fn split_indirect_tables() {
    use Malformed::*;
    let check = |features, head, table: &[(u64, u32, u16, u16)], expected| {
        let arena = split_ring(features, &[head]);
        for (i, &(address, len, flags, next)) in table.iter().enumerate() {
            arena.table_bytes().slice(16 * i, 16).write(&descriptor(address, len, flags, next));
        }
        assert_eq!(refused(&arena), expected);
    };
    let entry = |entry| Place::Indirect { of: 0, entry };
    let head = (TABLES, 32, INDIRECT, 0);
    check(
        RingFeatures::plain(RingLayout::Split),
        head,
        &[],
        error(IndirectNotNegotiated, Place::Descriptor(0), 4),
    );
    check(split(), (TABLES, 32, INDIRECT | NEXT, 1), &[], error(IndirectWithNext, Place::Descriptor(0), 5));
    for len in [0, 8, 17, 16 * 1025] {
        check(
            split(),
            (TABLES, len, INDIRECT, 0),
            &[],
            error(IndirectTableSize, Place::Descriptor(0), len.into()),
        );
    }
    check(split(), head, &[(DATA, 1, INDIRECT, 0)], error(IndirectInIndirect, entry(0), 4));
    check(split(), head, &[(DATA, 1, NEXT, 2)], error(DescriptorOutOfRange, entry(0), 2));
    check(split(), head, &[(DATA, 1, NEXT, 0)], error(ChainTooLong, Place::Descriptor(0), 2));
    check(split(), (0x10, 32, INDIRECT, 0), &[], error(OutsideMemory, entry(0), 0x10));
}

#[test]
fn split_available_ring() {
    // §2.7.6: a head that is no descriptor, an index that runs ahead.
    let arena = split_ring(split(), &[]);
    arena.ring_bytes().slice(arena.driver_area_offset() + 6, 2).write(&[8, 0]);
    assert_eq!(refused(&arena), error(Malformed::DescriptorOutOfRange, Place::Available(1), 8));
    for ahead in [9u16, 0x8000, 0xffff] {
        let arena = split_ring(split(), &[]);
        let mut device = arena.device();
        arena.ring_bytes().slice(arena.driver_area_offset() + 2, 2).write(&ahead.to_le_bytes());
        let expected = error(Malformed::AvailableTooFarAhead, Place::AvailableIndex, ahead.into());
        assert_eq!(device.pop(&mut Burst::new(8), 8), Err(expected.into()));
    }
}

#[test]
fn packed_chains() {
    use Malformed::*;
    let check = |slots: &[_], expected| assert_eq!(refused(&packed_ring(packed(), slots)), expected);
    check(&[(DATA, 1, 8, 0)], error(BufferIdOutOfRange, Place::Slot(1), 8));
    check(
        &[(DATA, 1, 0, NEXT | WRITE), (DATA + 9, 1, 0, 0)],
        error(ReadableAfterWritable, Place::Slot(2), DATA + 9),
    );
    check(&[(0x20, 1, 0, 0)], error(OutsideMemory, Place::Slot(1), 0x20));
    // Seven more slots are free, and all of them say that there is another.
    check(&[(DATA, 1, 0, NEXT); 7], error(ChainTooLong, Place::Slot(1), 7));
    check(&[(TABLES, 32, 0, INDIRECT | NEXT)], error(IndirectWithNext, Place::Slot(1), 0x85));
    check(&[(TABLES, 15, 0, INDIRECT)], error(IndirectTableSize, Place::Slot(1), 15));
    let plain = RingFeatures::plain(RingLayout::Packed);
    let arena = packed_ring(plain, &[(TABLES, 16, 0, INDIRECT)]);
    assert_eq!(refused(&arena), error(IndirectNotNegotiated, Place::Slot(1), 0x84));
    let arena = packed_ring(packed(), &[(TABLES, 16, 0, INDIRECT)]);
    arena.table_bytes().slice(0, 16).write(&descriptor(DATA, 1, 0, INDIRECT));
    assert_eq!(refused(&arena), error(IndirectInIndirect, Place::Indirect { of: 1, entry: 0 }, 4));
}

/// DPDK's transmit tables, in which WRITE stands where it likes: all of them is readable where the device
/// says that it writes nothing, and a malformed ring elsewhere.
#[test]
fn flags_of_indirect_tables_are_not_trusted_where_the_device_only_reads() {
    for flags in [[WRITE, 0, 0], [WRITE, 0, WRITE], [WRITE, WRITE, 0], [WRITE; 3], [0; 3]] {
        let arena = packed_ring(packed(), &[(TABLES, 48, 0, INDIRECT)]);
        for (i, flags) in flags.into_iter().enumerate() {
            let at = DATA + 100 * i as u64;
            arena.table_bytes().slice(16 * i, 16).write(&descriptor(at, 12, 0, flags));
        }
        arena.write_data(0, b"a net header");
        let indirect_flags = virtqueue::IndirectFlags::AllReadable;
        let options = virtqueue::DeviceOptions { indirect_flags, ..Default::default() };
        let mut device = arena.config.activate_device(&arena.space, options).unwrap();
        let mut burst = Burst::new(8);
        assert_eq!(device.pop(&mut burst, 8), Ok(2), "{flags:?}");
        let mut header = [0; 12];
        burst.chain(1).read(0, &mut header);
        assert_eq!(&header, b"a net header");
        assert_eq!((burst.chain(1).readable_bytes(), burst.chain(1).writable_bytes()), (36, 0));
        if flags[0] > flags[1] || flags[1] > flags[2] {
            assert_eq!(refused(&arena).rule, Malformed::ReadableAfterWritable);
        }
    }
}

/// A driver that makes slots available again which the device still has.
#[test]
fn packed_slots_cannot_be_available_twice() {
    let arena = packed_ring(packed(), &[(DATA, 1, 0, 0); 7]);
    let mut device = arena.device();
    let mut burst = Burst::new(16);
    assert_eq!(device.pop(&mut burst, 16), Ok(8));
    // The second pass: AVAIL 0, USED 1.
    arena.ring_bytes().slice(0, 16).write(&descriptor(DATA, 1, 3, 1 << 15));
    let expected = error(Malformed::AvailableTooFarAhead, Place::Slot(0), 0);
    assert_eq!(device.pop(&mut burst, 16), Err(expected.into()));
}

/// The same for a whole cache line of slots, which is taken by another path.
#[test]
fn a_line_of_packed_slots_cannot_be_available_twice() {
    let arena = Arena::new(packed(), 8, 8192);
    for slot in 0..8 {
        arena.ring_bytes().slice(16 * slot, 16).write(&descriptor(DATA, 1, slot as u16, AVAIL));
    }
    let mut device = arena.device();
    let mut burst = Burst::new(16);
    assert_eq!(device.pop(&mut burst, 16), Ok(8));
    for slot in 0..4 {
        arena.ring_bytes().slice(16 * slot, 16).write(&descriptor(DATA, 1, slot as u16, 1 << 15));
    }
    let expected = error(Malformed::AvailableTooFarAhead, Place::Slot(0), 0);
    assert_eq!(device.pop(&mut burst, 8), Err(expected.into()));
}

/// What is taken and not yet used counts: eight more on top of two are ten in a queue of eight.
#[test]
fn the_available_index_is_bounded_by_what_is_used() {
    let arena = split_ring(split(), &[(DATA, 1, 0, 0)]);
    let mut device = arena.device();
    let mut burst = Burst::new(16);
    assert_eq!(device.pop(&mut burst, 16), Ok(2));
    arena.ring_bytes().slice(arena.driver_area_offset() + 2, 2).write(&10u16.to_le_bytes());
    let expected = error(Malformed::AvailableTooFarAhead, Place::AvailableIndex, 10);
    assert_eq!(device.pop(&mut burst, 16), Err(expected.into()));
}

#[test]
fn a_chain_as_long_as_the_queue_is_served_by_both_layouts() {
    let chain: Vec<_> = (0..8).map(|i| (DATA + i, 1, if i < 7 { NEXT } else { 0 }, i as u16 + 1)).collect();
    let arena = split_ring(split(), &chain);
    arena.ring_bytes().slice(arena.driver_area_offset(), 6).write(&[0, 0, 1, 0, 0, 0]);
    let mut burst = Burst::new(1);
    assert_eq!(arena.device().pop(&mut burst, 1), Ok(1));
    assert_eq!(burst.chain(0).readable_bytes(), 8);
    let arena = packed_ring(packed(), &[(DATA, 1, 0, NEXT); 6]);
    arena.ring_bytes().slice(0, 16).write(&descriptor(DATA, 1, 0, NEXT | AVAIL));
    arena.ring_bytes().slice(16 * 7, 16).write(&descriptor(DATA, 1, 5, AVAIL));
    assert_eq!(arena.device().pop(&mut burst, 1), Ok(1));
    assert_eq!((burst.chain(0).readable_bytes(), burst.chain(0).id()), (8, 5));
}

#[test]
fn a_device_that_lies_is_refused_by_both_layouts() {
    use Malformed::*;
    let buffers = [Buffer { address: DATA, len: 10, cookie: 0 }; 2];
    let refused = |arena: &Arena, at: usize, bytes: &[u8]| {
        let mut driver = arena.driver();
        assert_eq!(driver.add(&buffers, Direction::FromDevice), 2);
        arena.ring_bytes().slice(at, bytes.len()).write(bytes);
        let mut used = Vec::new();
        let error = driver.reclaim(&mut used, 8).unwrap_err();
        assert!(used.is_empty());
        assert_eq!(driver.add(&buffers, Direction::FromDevice), 0, "a broken ring takes nothing");
        assert_eq!(driver.reclaim(&mut used, 8), Err(error));
        error
    };
    let arena = Arena::new(split(), 8, 8192);
    let at = arena.device_area_offset();
    let used = |id: u8, len: u8| [0, 0, 1, 0, id, 0, 0, 0, len, 0, 0, 0];
    assert_eq!(refused(&arena, at, &used(5, 0)), error(NotOutstanding, Place::Used(0), 5));
    assert_eq!(refused(&arena, at, &used(99, 0)), error(NotOutstanding, Place::Used(0), 99));
    assert_eq!(refused(&arena, at, &used(0, 11)), error(UsedLengthTooLong, Place::Used(0), 11));
    assert_eq!(refused(&arena, at + 2, &[3, 0]), error(UsedTooFarAhead, Place::UsedIndex, 3));
    let arena = Arena::new(packed(), 8, 8192);
    // Length, id, flags: AVAIL and USED as the first pass's wrap counter, and WRITE.
    let used = |id: u8, len: u8| [len, 0, 0, 0, id, 0, 0x82, 0x80];
    assert_eq!(refused(&arena, 8, &used(5, 0)), error(NotOutstanding, Place::Slot(0), 5));
    assert_eq!(refused(&arena, 8, &used(200, 0)), error(NotOutstanding, Place::Slot(0), 200));
    assert_eq!(refused(&arena, 8, &used(0, 11)), error(UsedLengthTooLong, Place::Slot(0), 11));
}

#[test]
fn configurations_are_refused_before_anything_runs() {
    let arena = Arena::new(split(), 8, 8192);
    for size in [0, 3, 65536] {
        let mut config = arena.config.clone();
        config.size = size;
        assert!(config.activate_device(&arena.space, Default::default()).is_err());
    }
    for address in [1u64, 0xdead_0000, u64::MAX - 15, virtqueue::mock::RINGS + 8] {
        let mut config = arena.config.clone();
        config.descriptors = memory::Address::Guest(address);
        assert!(config.activate_device(&arena.space, Default::default()).is_err(), "{address:#x}");
        let mut config = arena.config.clone();
        config.device_area = memory::Address::Guest(address | 1);
        assert!(config.activate_device(&arena.space, Default::default()).is_err(), "{address:#x}");
    }
    let mut config = arena.config.clone();
    config.position = virtqueue::Position::start(RingLayout::Packed);
    assert!(config.activate_device(&arena.space, Default::default()).is_err());
}
