//! Live migration loses nothing: a front-end that takes the dirty log at the worst moment, right before a word of the
//! ring is stored, and copies the pages that it names, finds the page that the store changes in the log again. Pages
//! of buffers are in it before the driver can see that they are used.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use memory::{DirtyLog, Translator, sealed_memfd};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{
    Atomics, Buffer, Burst, DeviceQueue, Direction, DriverQueue, Event, PackedDescriptor, PackedDevice,
    PackedDriver, PackedRing, Position, QueueSize, RingFeatures, RingLayout, RingPlaces, SplitDescriptor,
    SplitDevice, SplitDriver, SplitRing, UsedElement, UsedLog, With, Word,
};

const SIZE: u16 = 4;

/// What the log is told: the used ring, or the descriptors, and the packed ring's device area.
const USED: u64 = 0x20_0000;
const DEVICE_EVENT: u64 = 0x30_0000;

/// The front-end, which looks at the log before each store of a device.
#[derive(Default)]
struct FrontEnd {
    log: Option<Arc<DirtyLog>>,
    /// Pages that were taken from the log so far.
    taken: BTreeSet<u64>,
    /// Stores of 16 bits: indices, flags, event positions.
    stores: usize,
}

thread_local! {
    static FRONT_END: RefCell<FrontEnd> = RefCell::default();
}

fn before_a_store() {
    FRONT_END.with_borrow_mut(|front_end| {
        if let Some(log) = &front_end.log {
            front_end.taken.extend(log.take());
            front_end.stores += 1;
        }
    });
}

/// What `action` stored, and what the front-end took from the log before the last store, and what was left behind it.
fn watched(log: &Arc<DirtyLog>, action: impl FnOnce()) -> (usize, BTreeSet<u64>, Vec<u64>) {
    FRONT_END.set(FrontEnd { log: Some(Arc::clone(log)), ..FrontEnd::default() });
    action();
    let FrontEnd { taken, stores, .. } = FRONT_END.take();
    (stores, taken, log.take())
}

macro_rules! words {
    ($($word:ident($atomic:ty) = $int:ty;)*) => {$(
        #[derive(Default)]
        struct $word($atomic);
        impl Word<$int> for $word {
            fn load(&self, order: Ordering) -> $int {
                self.0.load(order)
            }
            fn store(&self, value: $int, order: Ordering) {
                if size_of::<$int>() == 2 {
                    before_a_store();
                }
                self.0.store(value, order)
            }
        }
    )*};
}
words! { W16(AtomicU16) = u16; W32(AtomicU32) = u32; W64(AtomicU64) = u64; }

struct Watched;

impl Atomics for Watched {
    type U16 = W16;
    type U32 = W32;
    type U64 = W64;
}

struct Split {
    descriptors: Vec<SplitDescriptor<Watched>>,
    available: Vec<W16>,
    used_header: Vec<W16>,
    used: Vec<UsedElement<Watched>>,
    available_event: W16,
}

struct Packed {
    descriptors: Vec<PackedDescriptor<Watched>>,
    driver_event: Event<Watched>,
    device_event: Event<Watched>,
}

struct Shared<T>(Arc<T>);

impl SplitRing for Shared<Split> {
    type Atomics = Watched;
    fn descriptors(&self) -> &[SplitDescriptor<Watched>] {
        &self.0.descriptors
    }
    fn available(&self) -> &[W16] {
        &self.0.available
    }
    fn used_header(&self) -> &[W16] {
        &self.0.used_header
    }
    fn used(&self) -> &[UsedElement<Watched>] {
        &self.0.used
    }
    fn available_event(&self) -> &W16 {
        &self.0.available_event
    }
}

impl PackedRing for Shared<Packed> {
    type Atomics = Watched;
    fn descriptors(&self) -> &[PackedDescriptor<Watched>] {
        &self.0.descriptors
    }
    fn driver_event(&self) -> &Event<Watched> {
        &self.0.driver_event
    }
    fn device_event(&self) -> &Event<Watched> {
        &self.0.device_event
    }
}

type Halves = (Box<dyn DriverQueue>, Box<dyn DeviceQueue>);
type MakeHalves = fn(UsedLog) -> Halves;

fn arena(layout: RingLayout) -> Arena {
    Arena::new(RingFeatures::plain(layout), SIZE.into(), 8192)
}

fn split<const EVENT_IDX: bool, const IN_ORDER: bool>(log: UsedLog) -> Halves {
    let (layout, arena) = (RingLayout::Split, arena(RingLayout::Split));
    let ring = Arc::new(Split {
        descriptors: (0..SIZE).map(|_| Default::default()).map(split_descriptor).collect(),
        available: (0..3 + SIZE).map(|_| W16::default()).collect(),
        used_header: (0..2).map(|_| W16::default()).collect(),
        used: (0..SIZE).map(|_| UsedElement::from_words(W32::default(), W32::default())).collect(),
        available_event: W16::default(),
    });
    let size = QueueSize::new(layout, SIZE.into()).unwrap();
    let translator = Translator::new(Arc::clone(&arena.space));
    let driver =
        SplitDriver::<_, With<EVENT_IDX, false, IN_ORDER>>::new(Shared(Arc::clone(&ring)), size, None);
    let (ring, position) = (Shared(ring), Position::start(layout));
    let device = SplitDevice::<_, With<EVENT_IDX, false, IN_ORDER>>::new(
        ring,
        size,
        position,
        translator,
        Some(log),
        None,
    );
    (Box::new(driver), Box::new(device))
}

fn split_descriptor((address, len, flags, next): (W64, W32, W16, W16)) -> SplitDescriptor<Watched> {
    SplitDescriptor::from_words(address, len, flags, next)
}

fn packed<const EVENT_IDX: bool, const IN_ORDER: bool>(log: UsedLog) -> Halves {
    let (layout, arena) = (RingLayout::Packed, arena(RingLayout::Packed));
    let event = || Event::from_words(W16::default(), W16::default());
    let descriptor =
        |_| PackedDescriptor::from_words(W64::default(), W32::default(), W16::default(), W16::default());
    let descriptors = (0..SIZE).map(descriptor).collect();
    let ring = Arc::new(Packed { descriptors, driver_event: event(), device_event: event() });
    let size = QueueSize::new(layout, SIZE.into()).unwrap();
    let translator = Translator::new(Arc::clone(&arena.space));
    let driver =
        PackedDriver::<_, With<EVENT_IDX, false, IN_ORDER>>::new(Shared(Arc::clone(&ring)), size, None);
    let (ring, position) = (Shared(ring), Position::start(layout));
    let device = PackedDevice::<_, With<EVENT_IDX, false, IN_ORDER>>::new(
        ring,
        size,
        position,
        translator,
        Some(log),
        None,
    );
    (Box::new(driver), Box::new(device))
}

#[test]
fn no_store_to_a_ring_is_lost_by_a_log_that_is_taken_just_before_it() {
    let all: [(MakeHalves, u64, &str); 8] = [
        (split::<false, false>, USED, "split"),
        (split::<true, false>, USED, "split, event index"),
        (split::<false, true>, USED, "split, in order"),
        (split::<true, true>, USED, "split, event index, in order"),
        (packed::<false, false>, DEVICE_EVENT, "packed"),
        (packed::<true, false>, DEVICE_EVENT, "packed, event index"),
        (packed::<false, true>, DEVICE_EVENT, "packed, in order"),
        (packed::<true, true>, DEVICE_EVENT, "packed, event index, in order"),
    ];
    for (halves, events_at, name) in all {
        let bytes = (DATA + 8192) / 4096 / 8 + 8;
        let file = sealed_memfd(c"log", bytes).unwrap();
        let log = Arc::new(DirtyLog::map(&file, 0, bytes).unwrap());
        let places = RingPlaces { used: USED, device_event: DEVICE_EVENT };
        let (mut driver, mut device) = halves(UsedLog { log: Arc::clone(&log), ring: Some(places) });
        let mut burst = Burst::new(SIZE.into());
        // More than two laps.
        for lap in 0..5 {
            let buffers = [0, 1].map(|cookie| Buffer { address: DATA + 100, len: 100, cookie });
            assert_eq!(driver.add(&buffers, Direction::FromDevice), 2);
            assert_eq!(device.pop(&mut burst, 2), Ok(2));
            (0..2).for_each(|chain| burst.set_written(chain, 50));
            let (stores, taken, left) = watched(&log, || device.add_used_all(&mut burst));
            assert!(stores > 0);
            assert!(left.contains(&(USED / 4096)), "{name}, lap {lap}: the used buffers are lost, {left:x?}");
            assert!(
                taken.contains(&(DATA / 4096)),
                "{name}, lap {lap}: seen before it is logged, {taken:x?}"
            );
            assert_eq!(driver.reclaim(&mut Vec::new(), 8), Ok(2), "{name}");

            let (stores, _, left) = watched(&log, || device.disable_kicks());
            assert!(stores > 0 && left.contains(&(events_at / 4096)), "{name}: disarming, {left:x?}");
            let (stores, _, left) = watched(&log, || assert!(!device.enable_kicks()));
            assert!(stores > 0 && left.contains(&(events_at / 4096)), "{name}: arming, {left:x?}");
        }
        assert_eq!(device.broken(), None);
    }
}
