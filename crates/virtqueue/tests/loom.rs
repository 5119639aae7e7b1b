//! Bounded models: every order in which two processors can see each other's accesses, for the very code
//! that runs. Publishing and consuming, and notification suppression without a lost wake-up, for both
//! layouts; and proof that the models would notice: with one ordering broken they fail.

mod own_words;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{self, Relaxed};
use std::sync::{Arc, OnceLock};

use loom::sync::atomic as la;
use memory::AddressSpace;
use own_words::{Halves, OwnWords};
use virtqueue::mock::{Arena, DATA};
use virtqueue::{
    Atomics, Buffer, Burst, DeviceQueue, Direction, DriverQueue, RingFeatures, RingLayout, With, Word,
};

/// Accesses a thread may be interrupted at in one execution; three find every two-thread bug known here.
const PREEMPTIONS: usize = 3;

macro_rules! words {
    ($($word:ident($atomic:ty) = $int:ty;)*) => {$(
        struct $word($atomic);
        impl Word<$int> for $word {
            fn load(&self, order: Ordering) -> $int {
                self.0.load(order)
            }
            fn store(&self, value: $int, order: Ordering) {
                self.0.store(value, order)
            }
        }
        impl Default for $word {
            fn default() -> Self {
                $word(<$atomic>::new(0))
            }
        }
    )*};
}
words! { W16(la::AtomicU16) = u16; W32(la::AtomicU32) = u32; W64(la::AtomicU64) = u64; }

/// The orderings as they are in service, and with one of them broken.
macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident { $($body:tt)* })*) => {$(
        $(#[$doc])*
        struct $name;
        impl Atomics for $name {
            type U16 = W16;
            type U32 = W32;
            type U64 = W64;
            $($body)*
        }
    )*};
}
atomics! {
    Sound { fn full_barrier() { la::fence(Ordering::SeqCst) } }
    RelaxedPublish {
        fn publish(word: &W16, value: u16) { word.store(value, Relaxed) }
        fn full_barrier() { la::fence(Ordering::SeqCst) }
    }
    RelaxedObserve {
        fn observe(word: &W16) -> u16 { word.load(Relaxed) }
        fn full_barrier() { la::fence(Ordering::SeqCst) }
    }
    /// Acquire and release instead of the full barrier: a store may still pass a later load.
    NoFullBarrier { fn full_barrier() { la::fence(Ordering::AcqRel) } }
}

const SIZE: u16 = 2;

/// Memory for the buffers; made once, outside the models, which do not follow it.
fn space() -> Arc<AddressSpace> {
    static SPACE: OnceLock<Arc<AddressSpace>> = OnceLock::new();
    Arc::clone(SPACE.get_or_init(|| Arena::new(RingFeatures::plain(RingLayout::Split), 2, 8192).space))
}

fn split<A: OwnWords, const EVENT_IDX: bool, const IN_ORDER: bool>() -> Halves {
    own_words::split::<A, With<EVENT_IDX, false, IN_ORDER>>(SIZE, space(), None)
}

fn packed<A: OwnWords, const EVENT_IDX: bool, const IN_ORDER: bool>() -> Halves {
    own_words::packed::<A, With<EVENT_IDX, false, IN_ORDER>>(SIZE, space(), None)
}

/// With a burst of two in two cache lines: the device writes the second first.
fn packed_in_two_lines<A: OwnWords, const EVENT_IDX: bool, const IN_ORDER: bool>() -> Halves {
    let (mut driver, mut device) = own_words::packed::<A, With<EVENT_IDX, false, IN_ORDER>>(4, space(), None);
    (0..3).for_each(|_| one_round(&mut *driver, &mut *device));
    (driver, device)
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

fn must_fail(model: impl Fn() + Sync + Send + 'static) {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(|| check(model)));
    std::panic::set_hook(quiet);
    assert!(result.is_err(), "the model did not notice the broken ordering");
}

fn buffer(cookie: u32) -> Buffer {
    Buffer { address: DATA, len: 100 + cookie, cookie }
}

/// The driver adds a burst of two and takes back what it finds, while the device takes and completes.
/// Whatever either sees must be whole. `rounds` buffers follow, so that slots are used again.
fn publish_and_consume(halves: fn() -> Halves) -> impl Fn() + Sync + Send + 'static {
    move || {
        let (mut driver, mut device) = halves();
        let handle = loom::thread::spawn(move || {
            let mut burst = Burst::new(2);
            let mut seen = 0;
            for _ in 0..2 {
                let taken = device.pop(&mut burst, 2).expect("the driver is sound");
                for i in burst.len() - taken..burst.len() {
                    // A stale descriptor would have another length.
                    assert_eq!(burst.chain(i).writable_bytes(), 100 + seen);
                    burst.set_written(i, 50 + seen);
                    seen += 1;
                }
                device.add_used_all(&mut burst);
            }
            (device, seen)
        });
        assert_eq!(driver.add(&[buffer(0), buffer(1)], Direction::FromDevice), 2);
        let mut used = Vec::new();
        driver.reclaim(&mut used, 2).expect("the device is sound");
        let again = used.len();
        // Slots that came back are used again at once, over what the device may still be reading.
        let more: Vec<Buffer> = (0..again as u32).map(|i| buffer(2 + i)).collect();
        driver.add(&more, Direction::FromDevice);
        let (_device, seen) = handle.join().expect("the device thread ends");
        driver.reclaim(&mut used, 4).expect("the device is sound");
        assert_eq!(used.len(), seen as usize);
        for (i, used) in used.iter().enumerate() {
            assert_eq!((used.cookie, used.written), (i as u32, 50 + i as u32));
        }
    }
}

/// One buffer makes a round before the threads start: with EVENT_IDX the fresh event positions would otherwise ask for
/// a notification even if no thread waits.
fn one_round(driver: &mut dyn DriverQueue, device: &mut dyn DeviceQueue) {
    let mut burst = Burst::new(2);
    driver.add(&[buffer(9)], Direction::FromDevice);
    driver.needs_kick();
    assert_eq!(device.pop(&mut burst, 1).expect("the driver is sound"), 1);
    device.add_used_all(&mut burst);
    device.needs_call();
    assert_eq!(driver.reclaim(&mut Vec::new(), 1).expect("the device is sound"), 1);
}

/// The device asks for a kick and looks once more before it sleeps; the driver adds and looks whether a
/// kick is wanted. If the device sleeps, the kick must come.
fn no_lost_kick(halves: fn() -> Halves) -> impl Fn() + Sync + Send + 'static {
    move || {
        let (mut driver, mut device) = halves();
        one_round(driver.as_mut(), device.as_mut());
        device.disable_kicks();
        let handle = loom::thread::spawn(move || !device.enable_kicks());
        driver.add(&[buffer(0)], Direction::FromDevice);
        let kicked = driver.needs_kick();
        let asleep = handle.join().expect("the device thread ends");
        assert!(kicked || !asleep, "the device sleeps beside an available buffer");
    }
}

/// The same the other way round.
fn no_lost_call(halves: fn() -> Halves) -> impl Fn() + Sync + Send + 'static {
    move || {
        let (mut driver, mut device) = halves();
        one_round(driver.as_mut(), device.as_mut());
        driver.disable_calls();
        driver.add(&[buffer(0)], Direction::FromDevice);
        let mut burst = Burst::new(2);
        assert_eq!(device.pop(&mut burst, 1).expect("the driver is sound"), 1);
        let handle = loom::thread::spawn(move || {
            device.add_used_all(&mut burst);
            device.needs_call()
        });
        let asleep = !driver.enable_calls();
        let called = handle.join().expect("the device thread ends");
        assert!(called || !asleep, "the driver sleeps beside a used buffer");
    }
}

#[test]
fn split_publishes_whole_buffers() {
    check(publish_and_consume(split::<Sound, false, false>));
}

#[test]
fn split_in_order_publishes_whole_buffers() {
    check(publish_and_consume(split::<Sound, false, true>));
}

#[test]
fn packed_publishes_whole_buffers() {
    check(publish_and_consume(packed::<Sound, false, false>));
    check(publish_and_consume(packed_in_two_lines::<Sound, false, false>));
}

#[test]
fn packed_in_order_publishes_whole_buffers() {
    check(publish_and_consume(packed::<Sound, false, true>));
    check(publish_and_consume(packed_in_two_lines::<Sound, false, true>));
}

#[test]
fn no_notification_is_lost() {
    for halves in [
        split::<Sound, false, false>,
        split::<Sound, true, false>,
        packed::<Sound, false, false>,
        packed::<Sound, true, false>,
    ] {
        check(no_lost_kick(halves));
        check(no_lost_call(halves));
    }
}

/// One test, because the panic hook belongs to the whole process.
#[test]
fn broken_orderings_are_noticed() {
    must_fail(publish_and_consume(split::<RelaxedPublish, false, false>));
    must_fail(publish_and_consume(split::<RelaxedObserve, false, false>));
    must_fail(publish_and_consume(packed::<RelaxedPublish, false, false>));
    must_fail(publish_and_consume(packed_in_two_lines::<RelaxedPublish, false, false>));
    must_fail(publish_and_consume(packed::<RelaxedObserve, false, false>));
    for halves in [
        split::<NoFullBarrier, false, false>,
        split::<NoFullBarrier, true, false>,
        packed::<NoFullBarrier, false, false>,
        packed::<NoFullBarrier, true, false>,
    ] {
        must_fail(no_lost_kick(halves));
        must_fail(no_lost_call(halves));
    }
}
