//! A driver, a shadow and a device in one process.
use std::collections::BTreeSet;

use memory::{Address, DirtyLog, Region, RegionRange, SharedSlice, sealed_memfd};
use virtio::RingLayout;
use virtqueue::{Buffer, DeviceOptions, Direction, Position, QueueConfig, RingFeatures, RingPlaces};

use super::*;

const GUEST: u64 = 0x10_0000;
const BYTES: u64 = 0x40_0000;
const DATA: u64 = GUEST + 0x10_0000;
const PAGE: u64 = memory::DIRTY_PAGE_BYTES;
/// Where the device has the relay's ring.
const OWN: u64 = 1 << 40;
const OWN_BYTES: u64 = 0x1_0000;
const SIZE: u16 = 8;

/// The driver's ring has each part on pages of its own.
fn ring_of(features: RingFeatures, base: u64, size: u16, position: Position) -> QueueConfig {
    QueueConfig {
        features,
        size: size.into(),
        descriptors: Address::Guest(base),
        driver_area: Address::Guest(base + 0x2000),
        device_area: Address::Guest(base + 0x4000),
        position,
    }
}

fn layouts() -> [RingFeatures; 4] {
    let split = RingFeatures::plain(RingLayout::Split);
    let packed = RingFeatures::plain(RingLayout::Packed);
    [
        split,
        RingFeatures { event_idx: true, indirect: true, ..split },
        RingFeatures { in_order: true, ..split },
        RingFeatures { event_idx: true, indirect: true, ..packed },
    ]
}

struct Lab {
    features: RingFeatures,
    guest: Arc<AddressSpace>,
    /// The memory of the relay's ring.
    own: Arc<AddressSpace>,
    log: Arc<DirtyLog>,
    driver: Box<dyn DriverQueue>,
    shadow: Shadow,
    /// The device works on the relay's ring, and has all memory.
    device: Box<dyn DeviceQueue>,
    kick: EventFd,
    call: EventFd,
    device_kick: EventFd,
}

impl Lab {
    fn new(features: RingFeatures, own_size: u16) -> Self {
        let region = |base, bytes| {
            Region::map(sealed_memfd(c"test", bytes).unwrap(), RegionRange::at(base, bytes)).unwrap()
        };
        let (memory, own_memory) = (region(GUEST, BYTES), region(OWN, OWN_BYTES));
        let guest = Arc::new(AddressSpace::from_regions([memory.clone()]).unwrap());
        let own = Arc::new(AddressSpace::from_regions([own_memory.clone()]).unwrap());
        let both = Arc::new(AddressSpace::from_regions([memory, own_memory]).unwrap());
        let log_bytes = (GUEST + BYTES) / PAGE / 8;
        let log = DirtyLog::map(sealed_memfd(c"log", log_bytes).unwrap(), 0, log_bytes).unwrap();
        let log = Arc::new(log);
        let (start, own_start) = (Position::start(features.layout), Position::start(RingLayout::Split));
        let config = ring_of(features, GUEST, SIZE, start);
        let own_config = ring_of(RingFeatures::plain(RingLayout::Split), OWN, own_size, own_start);
        let driver = config.activate_driver(&guest, Some((Address::Guest(GUEST + 0x8000), 8))).unwrap();
        let (kick, call) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        let device_kick = EventFd::new().unwrap();
        let shadow = Shadow::new(Parts {
            ring: config.activate_device(&guest, with_log(&log)).unwrap(),
            own: own_config.activate_driver(&own, None).unwrap(),
            space: Arc::clone(&guest),
            kick: kick.clone(),
            call: Some(call.clone()),
            own_kick: device_kick.clone(),
            own_call: EventFd::new().unwrap(),
        });
        let device = own_config.activate_device(&both, DeviceOptions::default()).unwrap();
        Lab { features, guest, own, log, driver, shadow, device, kick, call, device_kick }
    }

    fn bytes(&self, address: u64) -> SharedSlice<'_> {
        SharedSlice::of_mapping(self.guest.regions()[0].mapping())
            .slice((address - GUEST) as usize, PAGE as usize)
    }

    /// Makes a buffer available: a page that the device reads, and one that it writes.
    fn add(&mut self, cookie: u32) {
        let [readable, writable] =
            [0, 1].map(|page| Piece { address: page_of(cookie, page), len: PAGE as u32 });
        self.bytes(readable.address).write(&cookie.to_le_bytes());
        let request = Request { readable: &[readable], writable: &[writable], cookie };
        assert_eq!(self.driver.add_requests(&[request]), 1, "{cookie}");
        if self.driver.needs_kick() {
            self.kick.notify();
        }
    }

    /// What the device has been given.
    fn pop(&mut self) -> Burst {
        let mut burst = Burst::new(64);
        self.device.pop(&mut burst, 64).unwrap();
        burst
    }

    /// The device answers with the number that it reads.
    fn answer(&mut self, burst: &mut Burst, at: usize) {
        let mut number = [0; 4];
        burst.chain(at).read(0, &mut number);
        burst.chain(at).write(0, &number);
        burst.set_written(at, 4);
        self.device.add_used(burst, at..at + 1);
    }

    fn reclaimed(&mut self) -> Vec<Used> {
        let mut used = Vec::new();
        self.driver.reclaim(&mut used, 64).unwrap();
        used
    }

    /// The device half of the driver's ring from where a shadow has left it.
    fn continued(&self, base: VringBase) -> Box<dyn DeviceQueue> {
        let position = Position::from_vring_base(self.features.layout, base.to_wire());
        let config = ring_of(self.features, GUEST, SIZE, position);
        config.activate_device(&self.guest, DeviceOptions::default()).unwrap()
    }
}

fn with_log(log: &Arc<DirtyLog>) -> DeviceOptions {
    let ring = Some(RingPlaces { used: GUEST, device_event: GUEST + 0x4000 });
    DeviceOptions { log: Some(UsedLog { log: Arc::clone(log), ring }), ..DeviceOptions::default() }
}

/// The page of a buffer: 0 is read, 1 is written.
fn page_of(cookie: u32, page: u64) -> u64 {
    DATA + (u64::from(cookie) % 64 * 2 + page) * PAGE
}

/// Each buffer comes back once, in order, with what the device has written, and its page is in the log. No call and no
/// kick is lost: the shadow runs only after it was notified.
#[test]
fn chains_are_carried_once_in_order_and_their_pages_are_logged() {
    for features in layouts() {
        let mut lab = Lab::new(features, SIZE * 2);
        lab.shadow.run().unwrap();
        lab.log.take();
        let (mut added, mut seen) = (0, 0);
        for round in 0..500 {
            for _ in 0..round % 4 + 1 {
                if u32::from(lab.driver.free_descriptors()) >= 2 {
                    lab.add(added);
                    added += 1;
                }
            }
            if lab.kick.drain() > 0 {
                lab.kick.notify();
                lab.shadow.run().unwrap();
            }
            let mut burst = lab.pop();
            assert_eq!(lab.device_kick.drain() > 0, !burst.is_empty(), "{features:?}: {round}");
            // In an order of its own.
            for at in (0..burst.len()).rev() {
                lab.answer(&mut burst, at);
            }
            lab.shadow.run().unwrap();
            let used = lab.reclaimed();
            assert_eq!(lab.call.drain() > 0, !used.is_empty(), "{features:?}: {round}");
            let logged: BTreeSet<u64> = lab.log.take().into_iter().collect();
            for Used { cookie, written } in used {
                assert_eq!((cookie, written), (seen, 4), "{features:?}");
                let page = page_of(cookie, 1);
                let mut answer = [0; 4];
                lab.bytes(page).read(&mut answer);
                assert_eq!(u32::from_le_bytes(answer), cookie);
                assert!(logged.contains(&(page / PAGE)) && logged.contains(&(GUEST / PAGE)), "{logged:x?}");
                assert!(!logged.contains(&(page_of(cookie, 0) / PAGE)), "read, not written");
                seen += 1;
            }
            let _ = lab.driver.enable_calls();
        }
        assert!(seen == added && seen > 700, "{features:?}: {seen} of {added}");
    }
}

/// Buffers that the device has used in order are used. All behind them are available to the next device of the ring.
#[test]
fn a_stopped_shadow_leaves_the_rest_available() {
    for features in layouts() {
        let mut lab = Lab::new(features, SIZE * 2);
        (0..4).for_each(|cookie| lab.add(cookie));
        lab.shadow.run().unwrap();
        let mut burst = lab.pop();
        assert_eq!(burst.len(), 4);
        lab.answer(&mut burst, 0);
        lab.answer(&mut burst, 2);
        let shadow = std::mem::replace(&mut lab.shadow, Lab::new(features, SIZE).shadow);
        let base = shadow.stop();
        assert_eq!(lab.reclaimed(), [Used { cookie: 0, written: 4 }], "{features:?}");
        let mut next = lab.continued(base);
        let mut burst = Burst::new(8);
        assert_eq!(next.pop(&mut burst, 8), Ok(3), "{features:?}");
        for at in 0..3 {
            let mut number = [0; 4];
            burst.chain(at).read(0, &mut number);
            assert_eq!(u32::from_le_bytes(number), 1 + at as u32);
        }
        next.add_used_all(&mut burst);
        assert_eq!(lab.reclaimed().iter().map(|used| used.cookie).collect::<Vec<_>>(), [1, 2, 3]);
    }
}

/// Chains that do not fit wait, without a busy loop.
#[test]
fn a_full_ring_of_the_relay_waits_for_the_device() {
    let mut lab = Lab::new(RingFeatures::plain(RingLayout::Split), 4);
    (0..3).for_each(|cookie| lab.add(cookie));
    lab.shadow.run().unwrap();
    assert_eq!(lab.shadow.parts.own_call.drain(), 0, "it has woken itself");
    let mut burst = lab.pop();
    assert_eq!(burst.len(), 2);
    lab.answer(&mut burst, 0);
    lab.shadow.run().unwrap();
    assert_eq!(lab.pop().len(), 1);
    assert_eq!(lab.reclaimed(), [Used { cookie: 0, written: 4 }]);
}

#[test]
fn a_malformed_ring_and_a_wrong_device_stop_the_shadow() {
    let features = RingFeatures::plain(RingLayout::Split);
    let mut lab = Lab::new(features, SIZE);
    let outside = Buffer { address: GUEST + BYTES, len: 1, cookie: 0 };
    lab.driver.add(&[outside], Direction::FromDevice);
    let broken = lab.shadow.run().unwrap_err();
    assert!(matches!(broken, Broken::Driver(_)), "{broken}");
    assert!(lab.shadow.watched().is_none() && lab.shadow.run().is_ok());

    let mut lab = Lab::new(features, 2);
    let piece = Piece { address: DATA, len: 1 };
    let request = Request { readable: &[piece; 3], writable: &[], cookie: 0 };
    lab.driver.add_requests(&[request]);
    assert!(matches!(lab.shadow.run(), Err(Broken::TooLong(3))));

    let mut lab = Lab::new(features, SIZE);
    lab.add(0);
    lab.shadow.run().unwrap();
    // The device uses a buffer that it does not have.
    let used = SharedSlice::of_mapping(lab.own.regions()[0].mapping()).slice(0x4000, 12);
    used.write(&[0, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    let broken = lab.shadow.run().unwrap_err();
    assert!(matches!(broken, Broken::Device(_)), "{broken}");
}
