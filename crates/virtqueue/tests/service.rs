//! What a queue does besides moving buffers: notifications, recovery after a crash, the dirty log, the
//! IOTLB, resets.

use std::sync::Arc;

use memory::{Address, DirtyLog, Iotlb, IotlbEntry, Mapping, SharedSlice, sealed_memfd};
use virtqueue::mock::{Arena, DATA, RINGS};
use virtqueue::{
    Buffer, Burst, DeviceOptions, DeviceQueue, Direction, DriverQueue, Piece, PopError, QueueConfig,
    QueueSize, Request, RingFeatures, RingLayout, RingPlaces, Used, UsedLog,
};

const BOTH: [RingLayout; 2] = [RingLayout::Split, RingLayout::Packed];

fn buffer(cookie: u32) -> Buffer {
    Buffer { address: DATA + u64::from(cookie) * 100, len: 100, cookie }
}

fn every_feature_set() -> impl Iterator<Item = RingFeatures> {
    BOTH.into_iter().flat_map(|layout| {
        (0..8).map(move |bits| RingFeatures {
            event_idx: bits & 1 != 0,
            indirect: bits & 2 != 0,
            in_order: bits & 4 != 0,
            ..RingFeatures::plain(layout)
        })
    })
}

/// Ten laps of a small ring: an armed side is told exactly when there is something, a disarmed one not.
#[test]
fn notifications_come_when_asked_for_and_only_then() {
    for features in every_feature_set() {
        let arena = Arena::new(features, 4, 8192);
        let (mut driver, mut device) = (arena.driver(), arena.device());
        let (mut burst, mut used) = (Burst::new(4), Vec::new());
        for lap in 0..40 {
            let armed = lap % 3 != 0;
            if armed {
                assert!(!device.enable_kicks() && !driver.enable_calls());
            } else {
                device.disable_kicks();
                driver.disable_calls();
            }
            assert!(!driver.needs_kick(), "nothing was added since: {features:?}");
            driver.add(&[buffer(0), buffer(1)], Direction::FromDevice);
            assert_eq!(driver.needs_kick(), armed, "lap {lap}, {features:?}");
            assert!(device.enable_kicks(), "there is something already: {features:?}");
            assert_eq!(device.pop(&mut burst, 4), Ok(2));
            assert!(!device.needs_call(), "nothing was completed since: {features:?}");
            device.add_used_all(&mut burst);
            assert_eq!(device.needs_call(), armed, "lap {lap}, {features:?}");
            assert!(driver.enable_calls(), "there is something already: {features:?}");
            used.clear();
            assert_eq!(driver.reclaim(&mut used, 4), Ok(2));
        }
    }
}

/// The position is that of the last decision again after two laps, and of a new packed ring after one.
#[test]
fn whole_laps_between_two_decisions_are_not_nothing() {
    for (features, laps) in every_feature_set().flat_map(|features| (1..=4).map(move |laps| (features, laps)))
    {
        let arena = Arena::new(features, 4, 8192);
        let (mut driver, mut device) = (arena.driver(), arena.device());
        let (mut burst, mut used) = (Burst::new(4), Vec::new());
        for round in 0..3 {
            for lap in 0..laps {
                assert!(!driver.enable_calls());
                let buffers: Vec<Buffer> = (0..4).map(buffer).collect();
                assert_eq!(driver.add(&buffers, Direction::FromDevice), 4);
                assert_eq!(device.pop(&mut burst, 4), Ok(4));
                device.add_used_all(&mut burst);
                if lap + 1 < laps {
                    assert_eq!(driver.reclaim(&mut used, 4), Ok(4));
                }
            }
            assert!(device.needs_call(), "{laps} laps, round {round}, {features:?}");
            assert!(!device.needs_call(), "nothing was completed since: {features:?}");
            assert_eq!(driver.reclaim(&mut used, 4), Ok(4));
        }
    }
}

/// §2.9: the data of a kick is the position that the next buffer will have.
#[test]
fn notification_data_carries_the_position() {
    let arena = Arena::new(RingFeatures::plain(RingLayout::Packed), 3, 8192);
    let (mut driver, mut device) = (arena.driver(), arena.device());
    driver.add(&[buffer(0), buffer(1)], Direction::ToDevice);
    assert_eq!(driver.notification_data(5), 0x8002_0005);
    let mut burst = Burst::new(4);
    device.pop(&mut burst, 4).unwrap();
    device.add_used_all(&mut burst);
    driver.reclaim(&mut Vec::new(), 4).unwrap();
    driver.add(&[buffer(0), buffer(1)], Direction::ToDevice);
    assert_eq!(driver.notification_data(5), 0x0001_0005, "past the wrap");
    let arena = Arena::new(RingFeatures::plain(RingLayout::Split), 4, 8192);
    let mut driver = arena.driver();
    driver.add(&[buffer(0); 3], Direction::ToDevice);
    assert_eq!(driver.notification_data(1), 0x0003_0001);
}

fn region(layout: RingLayout, size: u32) -> Arc<Mapping> {
    let queue_size = QueueSize::new(layout, size).unwrap();
    let bytes = layout.in_flight_bytes(queue_size);
    Arc::new(Mapping::shared(sealed_memfd(c"in flight", bytes).unwrap(), 0, bytes).unwrap())
}

/// So many buffers there and back.
fn use_one_by_one(driver: &mut dyn DriverQueue, device: &mut dyn DeviceQueue, count: u32) {
    let mut burst = Burst::new(1);
    for _ in 0..count {
        driver.add(&[buffer(0)], Direction::FromDevice);
        device.pop(&mut burst, 1).unwrap();
        device.add_used_all(&mut burst);
        driver.reclaim(&mut Vec::new(), 1).unwrap();
    }
}

fn tracked(arena: &Arena, region: &Arc<Mapping>) -> Box<dyn DeviceQueue> {
    let in_flight = Some((Arc::clone(region), 0));
    arena
        .config
        .activate_device(&arena.space, DeviceOptions { in_flight, ..DeviceOptions::default() })
        .unwrap()
}

/// A device that dies with buffers in its hands is followed by one that takes them again, in their order,
/// and nothing twice; several times over, with completions out of order where that is allowed.
#[test]
fn a_successor_takes_again_what_was_in_flight() {
    for features in every_feature_set() {
        let arena = Arena::new(features, 8, 1 << 14);
        let region = region(features.layout, 8);
        let mut driver = arena.driver();
        let mut device = tracked(&arena, &region);
        let mut next = 0u32;
        let mut expected: Vec<u32> = Vec::new();
        let mut used = Vec::new();
        for life in 0..30u32 {
            // Chains of one and two pieces; their first byte is their name.
            for _ in 0..3 {
                let base = DATA + u64::from(next % 60) * 128;
                arena.write_data(u64::from(next % 60) * 128, &[next as u8]);
                let pieces = [Piece { address: base, len: 10 }, Piece { address: base + 10, len: 10 }];
                let readable = &pieces[..1 + next as usize % 2];
                if driver.add_requests(&[Request { readable, writable: &[], cookie: next }]) == 1 {
                    expected.push(next);
                    next += 1;
                }
            }
            let mut burst = Burst::new(8);
            let mut taken = Vec::new();
            while device.pop(&mut burst, 8).unwrap() > 0 {}
            // All go back into the ring that may; the others stay.
            for from in (0..burst.len()).rev() {
                device.rewind(&mut burst, from);
            }
            device.rewind(&mut burst, 0);
            while device.pop(&mut burst, 8).unwrap() > 0 {}
            for chain in burst.chains() {
                let mut name = [0];
                chain.read(0, &mut name);
                taken.push(name[0]);
            }
            let names: Vec<u8> = expected.iter().map(|&n| n as u8).collect();
            assert_eq!(taken, names, "life {life}, {features:?}");
            let done = life as usize % (taken.len() + 1);
            let range = if features.in_order { 0..done } else { taken.len() - done..taken.len() };
            expected.drain(range.clone());
            device.add_used(&mut burst, range);
            used.clear();
            assert_eq!(driver.reclaim(&mut used, 8), Ok(done), "{features:?}");
            // The device dies here; its burst dies with it.
            device = tracked(&arena, &region);
        }
    }
}

/// A front-end may stop a ring and start it again with a new region: it says where the ring stands.
#[test]
fn a_fresh_in_flight_region_begins_where_the_ring_stands() {
    for features in every_feature_set() {
        for used_before in [0, 3, 8, 11, 16, 21] {
            let arena = Arena::new(features, 8, 1 << 13);
            let mut driver = arena.driver();
            let (mut burst, mut used) = (Burst::new(8), Vec::new());
            let mut device = arena.device();
            use_one_by_one(&mut *driver, &mut *device, used_before);
            let config = QueueConfig { position: device.position(), ..arena.config.clone() };
            let in_flight = Some((region(features.layout, 8), 0));
            let options = DeviceOptions { in_flight: in_flight.clone(), ..DeviceOptions::default() };
            let mut device = config.activate_device(&arena.space, options).unwrap();
            driver.add(&[buffer(1), buffer(2)], Direction::FromDevice);
            assert_eq!(device.pop(&mut burst, 8), Ok(2), "{used_before}, {features:?}");
            // The next process continues there.
            let options = DeviceOptions { in_flight, ..DeviceOptions::default() };
            let mut device = config.activate_device(&arena.space, options).unwrap();
            assert_eq!(device.pop(&mut burst, 8), Ok(2), "{used_before}, {features:?}");
            device.add_used_all(&mut burst);
            used.clear();
            assert_eq!(driver.reclaim(&mut used, 8), Ok(2), "{used_before}, {features:?}");
        }
    }
}

/// The flags of a burst are written from its second slot on and then the first one's, which is what the driver waits for.
#[test]
fn half_a_burst_that_was_being_given_back_is_not_seen_later() {
    for features in every_feature_set().filter(|features| features.layout == RingLayout::Packed) {
        for used_before in 0..16 {
            let arena = Arena::new(features, 8, 1 << 13);
            let region = region(features.layout, 8);
            let mut driver = arena.driver();
            let mut device = tracked(&arena, &region);
            let (mut burst, mut used) = (Burst::new(8), Vec::new());
            use_one_by_one(&mut *driver, &mut *device, used_before);
            driver.add(&[buffer(1), buffer(2), buffer(3), buffer(4)], Direction::FromDevice);
            assert_eq!(device.pop(&mut burst, 8), Ok(4));
            for slot in used_before as usize + 1..used_before as usize + 4 {
                // AVAIL and USED (VIRTIO 1.3 §2.8.1) of this pass.
                let flags: u16 = if slot / 8 % 2 == 0 { 1 << 7 | 1 << 15 } else { 0 };
                arena.ring_bytes().slice(16 * (slot % 8) + 14, 2).write(&flags.to_le_bytes());
                arena.ring_bytes().slice(16 * (slot % 8) + 8, 4).write(&0u32.to_le_bytes());
            }
            // The device's process is killed here.
            let mut device = tracked(&arena, &region);
            let mut burst = Burst::new(8);
            assert_eq!(device.pop(&mut burst, 8), Ok(4), "{used_before}, {features:?}");
            assert_eq!(device.rewind(&mut burst, 1), 0, "the ring does not hold them any more");
            used.clear();
            for wanted in 1..=4 {
                device.add_used(&mut burst, wanted - 1..wanted);
                driver.reclaim(&mut used, 8).unwrap();
                assert_eq!(used.len(), wanted, "{used_before}, {features:?}");
            }
        }
    }
}

/// A front-end that does not know where its packed ring stands says that it begins. The ring knows, if each chain is
/// one slot; else the queue stops and says so, instead of waiting for what it takes to be the next buffer.
#[test]
fn a_packed_ring_says_where_it_stands() {
    for features in every_feature_set().filter(|features| features.layout == RingLayout::Packed) {
        for used_before in 0..40 {
            let arena = Arena::new(features, 7, 1 << 13);
            let (mut driver, mut device) = (arena.driver(), arena.device());
            let (mut burst, mut used) = (Burst::new(8), Vec::new());
            use_one_by_one(&mut *driver, &mut *device, used_before);
            // Some in its hands, and some that it had not seen, when it dies.
            driver.add(&[buffer(1), buffer(2), buffer(3)], Direction::FromDevice);
            device.pop(&mut burst, 2).unwrap();
            let stood = device.position();
            let mut successor = arena.device();
            let (first_pass, begins_anew) = (used_before < 7, used_before % 14 == 0);
            if features.indirect && !features.in_order || begins_anew {
                assert!(successor.needs_call() || used_before == 0, "the one before may not have called");
                assert_eq!(successor.pop(&mut burst, 8), Ok(3), "{used_before}, {features:?}, {stood:?}");
                successor.add_used_all(&mut burst);
                used.clear();
                driver.reclaim(&mut used, 8).unwrap();
                assert_eq!(used.iter().map(|used| used.cookie).collect::<Vec<_>>(), [1, 2, 3]);
            } else if first_pass {
                let error = successor.pop(&mut burst, 8).unwrap_err().to_string();
                assert!(error.contains("reset the device"), "{error}");
            }
            // From the second pass on it may look like what longer chains leave, and the front-end is believed.
        }
    }
}

/// A peer writes the in-flight region: nonsense in it is an error or harmless, never a panic.
#[test]
fn a_scribbled_in_flight_region_is_harmless() {
    let mut random = 0x1234_5678_9abc_def1u64;
    let mut step = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for layout in BOTH {
        let arena = Arena::new(RingFeatures::plain(layout), 4, 8192);
        let region = region(layout, 4);
        let bytes = SharedSlice::of_mapping(&region);
        for _ in 0..20_000 {
            arena.driver().add(&[buffer(0), buffer(1)], Direction::ToDevice);
            bytes.write(&[0; 256]);
            bytes.slice(8, 4).write(&[1, 0, 4, 0]);
            for _ in 0..step() % 12 {
                let at = 12 + step() as usize % (bytes.len_bytes() - 12);
                bytes.slice(at, 2).write(&(step() as u16 % 7).to_le_bytes());
            }
            let in_flight = Some((Arc::clone(&region), 0));
            let activated = arena
                .config
                .activate_device(&arena.space, DeviceOptions { in_flight, ..DeviceOptions::default() });
            if let Ok(mut device) = activated {
                let mut burst = Burst::new(8);
                for _ in 0..3 {
                    let _ = device.pop(&mut burst, 8);
                    device.add_used_all(&mut burst);
                }
            }
        }
    }
}

#[test]
fn writes_are_logged_page_by_page_and_reads_are_not() {
    for layout in BOTH {
        let arena = Arena::new(RingFeatures::plain(layout), 4, 1 << 14);
        let log = Arc::new(DirtyLog::map(sealed_memfd(c"log", 1 << 16).unwrap(), 0, 1 << 16).unwrap());
        let (mut driver, mut device) = (arena.driver(), arena.device());
        let ring = RINGS + arena.device_area_offset() as u64 * u64::from(layout == RingLayout::Split);
        device.set_log(Some(UsedLog {
            log: Arc::clone(&log),
            ring: Some(RingPlaces { used: ring, device_event: ring }),
        }));
        driver.add(&[Buffer { address: DATA + 4090, len: 4096, cookie: 0 }], Direction::FromDevice);
        driver.add(&[Buffer { address: DATA + 3 * 4096, len: 10, cookie: 0 }], Direction::ToDevice);
        let mut burst = Burst::new(4);
        device.pop(&mut burst, 4).unwrap();
        burst.set_written(0, 7);
        device.add_used_all(&mut burst);
        let first = DATA / 4096;
        assert_eq!(log.take(), [RINGS / 4096, first, first + 1], "{layout:?}");
        device.set_log(None);
        driver.add(&[buffer(0)], Direction::FromDevice);
        driver.reclaim(&mut Vec::new(), 4).unwrap();
        device.pop(&mut burst, 4).unwrap();
        burst.set_written(0, 7);
        device.add_used_all(&mut burst);
        assert_eq!(log.take(), []);
    }
}

#[test]
fn a_missing_translation_is_asked_for_and_then_the_chain_comes() {
    for layout in BOTH {
        let arena = Arena::new(RingFeatures::plain(layout), 4, 8192);
        let mut driver = arena.driver();
        let mut iotlb = Iotlb::new();
        let user =
            |guest| arena.space.regions().iter().find(|r| r.guest_base() == guest).unwrap().user_base();
        let entry =
            |iova, guest| IotlbEntry { iova, size: 4096, user: user(guest), readable: true, writable: true };
        iotlb.update(entry(RINGS, RINGS)).unwrap();
        let space = |iotlb: &Iotlb| Arc::new(arena.space.with_iotlb(Some(Arc::new(iotlb.clone()))));
        let mut config = arena.config.clone();
        for address in [&mut config.descriptors, &mut config.driver_area, &mut config.device_area] {
            *address = Address::Iova(address.value());
        }
        let mut device = config.activate_device(&space(&iotlb), Default::default()).unwrap();
        let mut burst = Burst::new(4);
        driver.add(&[Buffer { address: 0x9000, len: 8, cookie: 3 }], Direction::FromDevice);
        let miss = PopError::Miss { iova: 0x9000, access: memory::Access::Write };
        assert_eq!(device.pop(&mut burst, 4), Err(miss));
        assert_eq!(device.pop(&mut burst, 4), Err(miss), "a miss does not stop the ring");
        iotlb.update(entry(0x9000, DATA)).unwrap();
        device.set_space(space(&iotlb));
        assert_eq!(device.pop(&mut burst, 4), Ok(1));
        burst.chain(0).write(0, b"answered");
        burst.set_written(0, 8);
        device.add_used_all(&mut burst);
        let mut used = Vec::new();
        driver.reclaim(&mut used, 4).unwrap();
        assert_eq!(used, [Used { cookie: 3, written: 8 }]);
        assert_eq!(arena.read_data(0, 8), b"answered");
        iotlb.invalidate(0x9000, 4096);
        device.set_space(space(&iotlb));
        driver.add(&[Buffer { address: 0x9000, len: 8, cookie: 3 }], Direction::FromDevice);
        assert_eq!(device.pop(&mut burst, 4), Err(miss), "invalidated, and no cached window survives");
    }
}

/// RING_RESET (§2.6.1): the driver gets its buffers back, the device starts anew, and completions of the
/// time before vanish.
#[test]
fn a_reset_queue_starts_anew() {
    for features in every_feature_set() {
        let arena = Arena::new(features, 4, 8192);
        let mut driver = arena.driver();
        let mut device = arena.device();
        let mut old = Burst::new(4);
        driver.add(&[buffer(1), buffer(2), buffer(3)], Direction::FromDevice);
        device.pop(&mut old, 2).unwrap();
        assert_eq!(driver.reset().len(), 3);
        device = arena.device();
        device.add_used_all(&mut old);
        let mut used = Vec::new();
        assert_eq!(driver.reclaim(&mut used, 4), Ok(0), "{features:?}");
        driver.add(&[buffer(7)], Direction::FromDevice);
        let mut burst = Burst::new(4);
        assert_eq!(device.pop(&mut burst, 4), Ok(1));
        device.add_used_all(&mut burst);
        assert_eq!(driver.reclaim(&mut used, 4), Ok(1));
        assert_eq!(used[0].cookie, 7);
    }
}

/// One used entry for a burst with IN_ORDER, unless a buffer was written only in part.
#[test]
fn in_order_bursts_are_one_used_entry() {
    let features = RingFeatures { in_order: true, ..RingFeatures::plain(RingLayout::Split) };
    let arena = Arena::new(features, 8, 8192);
    let (mut driver, mut device) = (arena.driver(), arena.device());
    driver.add(&[buffer(0), buffer(1), buffer(2), buffer(3)], Direction::FromDevice);
    let mut burst = Burst::new(8);
    device.pop(&mut burst, 8).unwrap();
    for (i, written) in [100, 40, 100, 100].into_iter().enumerate() {
        burst.set_written(i, written);
    }
    device.add_used_all(&mut burst);
    let mut entries = [0; 36];
    arena.ring_bytes().slice(arena.device_area_offset(), 36).read(&mut entries);
    let entry = |i: usize| (entries[4 + 8 * i], entries[8 + 8 * i]);
    assert_eq!((entry(0), entry(1), entry(2), entry(3)), ((1, 40), (0, 0), (3, 100), (0, 0)));
    let mut used = Vec::new();
    driver.reclaim(&mut used, 8).unwrap();
    assert_eq!(used.iter().map(|u| u.written).collect::<Vec<_>>(), [100, 40, 100, 100]);
}

/// Two guests, one copy.
#[test]
fn a_frame_goes_from_guest_to_guest_in_one_copy() {
    let from = Arena::new(RingFeatures::plain(RingLayout::Split), 8, 1 << 14);
    let to = Arena::new(RingFeatures::plain(RingLayout::Packed), 8, 1 << 14);
    let (mut sender, mut receiver) = (from.driver(), to.driver());
    let frame: Vec<u8> = (0..1500u32).map(|i| (i * 31) as u8).collect();
    from.write_data(0, &frame);
    let pieces = [Piece { address: DATA, len: 700 }, Piece { address: DATA + 700, len: 800 }];
    sender.add_requests(&[Request { readable: &pieces, writable: &[], cookie: 0 }]);
    // The receiver's buffer lies across its two regions.
    let at = to.data_bytes() / 2 - 1000;
    receiver.add(&[Buffer { address: DATA + at, len: 2048, cookie: 0 }], Direction::FromDevice);
    let (mut a, mut b) = (from.device(), to.device());
    let (mut frames, mut room) = (Burst::new(8), Burst::new(8));
    a.pop(&mut frames, 8).unwrap();
    b.pop(&mut room, 8).unwrap();
    assert_eq!(room.chain(0).writable().len(), 2);
    let copied = frames.chain(0).copy_to(0, room.chain(0), 12, usize::MAX);
    assert_eq!(copied, 1500);
    room.set_written(0, 12 + copied as u32);
    b.add_used_all(&mut room);
    a.add_used_all(&mut frames);
    assert_eq!(to.read_data(at + 12, 1500), frame);
}
