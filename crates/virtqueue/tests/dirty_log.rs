//! Live migration loses nothing: a front-end that takes the dirty log at the worst moment, right before a word of the
//! ring is stored, and copies the pages that it names, finds the page that the store changes in the log again. Pages
//! of buffers are in it before the driver can see that they are used.

mod own_words;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use memory::{DirtyLog, sealed_memfd};
use own_words::Halves;
use virtqueue::mock::{Arena, DATA};
use virtqueue::{
    Atomics, Buffer, Burst, Direction, RingFeatures, RingLayout, RingPlaces, UsedLog, With, Word,
};

const SIZE: u16 = 4;

/// The addresses that the log gets: the used ring, or the descriptors, and the packed ring's device area.
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

/// The number of stores by `action`, the pages that the front-end took from the log before the last store, and the
/// pages left after it.
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

type MakeHalves = fn(UsedLog) -> Halves;

fn split<const EVENT_IDX: bool, const IN_ORDER: bool>(log: UsedLog) -> Halves {
    let space = Arena::new(RingFeatures::plain(RingLayout::Split), SIZE.into(), 8192).space;
    own_words::split::<Watched, With<EVENT_IDX, false, IN_ORDER>>(SIZE, space, Some(log))
}

fn packed<const EVENT_IDX: bool, const IN_ORDER: bool>(log: UsedLog) -> Halves {
    let space = Arena::new(RingFeatures::plain(RingLayout::Packed), SIZE.into(), 8192).space;
    own_words::packed::<Watched, With<EVENT_IDX, false, IN_ORDER>>(SIZE, space, Some(log))
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
