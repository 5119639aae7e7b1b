//! Both halves on two processors at once, in both layouts: buffers arrive once, in their order and whole, and no
//! notification is lost. `loom.rs` explores every order of a few accesses; this test makes many accesses on the
//! processor that runs it, each half on a CPU of its own if this process may use two; on one CPU the halves take turns, and
//! the test says so. `scripts/aarch64.sh` runs it on two emulated Arm processors, each in a thread of the emulator. An
//! emulator on x86 reorders less than Arm's processors may.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Burst, DeviceQueue, Direction, DriverQueue, RingFeatures, RingLayout};

const SIZE: u32 = 16;
const BUFFERS: u32 = 20_000;
/// Places for buffers: more than the ring holds, so that none is written again while the device may read it.
const PLACES: u32 = 32;
const PLACE_BYTES: u32 = 1024;
/// The time after which a notification counts as lost.
const LIMIT: Duration = Duration::from_secs(120);

fn offset(number: u32) -> u64 {
    u64::from(number % PLACES * PLACE_BYTES)
}

/// A stale descriptor would have another length.
fn buffer(number: u32) -> Buffer {
    Buffer { address: DATA + offset(number), len: 8 + number % 1000, cookie: number }
}

fn payload(number: u32) -> [u8; 8] {
    (u64::from(number) << 32 | u64::from(!number)).to_le_bytes()
}

/// An eventfd without a system call.
#[derive(Default)]
struct Waker(AtomicBool);

impl Waker {
    fn wake(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn wait(&self, who: &str, number: u32) {
        let began = Instant::now();
        while !self.0.swap(false, Ordering::Acquire) {
            assert!(began.elapsed() < LIMIT, "the {who} waits for ever after buffer {number}");
            std::thread::yield_now();
        }
    }
}

fn serve(direction: Direction, device: &mut dyn DeviceQueue, [kick, call]: [&Waker; 2]) {
    let mut burst = Burst::new(SIZE as usize);
    let mut number = 0;
    while number < BUFFERS {
        let taken = device.pop(&mut burst, SIZE as usize).expect("the driver is sound");
        for i in 0..taken {
            let Buffer { len, .. } = buffer(number);
            let chain = burst.chain(i);
            let lengths = (chain.readable_bytes(), chain.writable_bytes());
            if direction == Direction::ToDevice {
                assert_eq!(lengths, (len, 0), "buffer {number}");
                let mut found = [0; 8];
                assert_eq!((chain.read(0, &mut found), found), (8, payload(number)), "buffer {number}");
            } else {
                assert_eq!(lengths, (0, len), "buffer {number}");
                assert_eq!(chain.write(0, &payload(number)), 8);
                burst.set_written(i, len);
            }
            number += 1;
        }
        device.add_used_all(&mut burst);
        if taken > 0 && device.needs_call() {
            call.wake();
        }
        if taken == 0 {
            if !device.enable_kicks() {
                kick.wait("device", number);
            }
            device.disable_kicks();
        }
    }
}

fn drive(arena: &Arena, direction: Direction, driver: &mut dyn DriverQueue, [kick, call]: [&Waker; 2]) {
    let (mut added, mut reclaimed, mut used) = (0, 0, Vec::new());
    while reclaimed < BUFFERS {
        let many = (1 + added % 5).min(SIZE - (added - reclaimed)).min(BUFFERS - added);
        let buffers: Vec<Buffer> = (added..added + many).map(buffer).collect();
        if direction == Direction::ToDevice {
            (added..added + many).for_each(|number| arena.write_data(offset(number), &payload(number)));
        }
        assert_eq!(driver.add(&buffers, direction), many as usize);
        added += many;
        if many > 0 && driver.needs_kick() {
            kick.wake();
        }
        used.clear();
        driver.reclaim(&mut used, usize::MAX).expect("the device is sound");
        for one in &used {
            assert_eq!(one.cookie, reclaimed);
            if direction == Direction::FromDevice {
                assert_eq!(one.written, buffer(reclaimed).len, "buffer {reclaimed}");
                assert_eq!(arena.read_data(offset(reclaimed), 8), payload(reclaimed), "buffer {reclaimed}");
            }
            reclaimed += 1;
        }
        if many == 0 && used.is_empty() {
            if !driver.enable_calls() {
                call.wait("driver", reclaimed);
            }
            driver.disable_calls();
        }
    }
}

/// A CPU for each half, two different ones if this process may use two.
fn cpus() -> [usize; 2] {
    let usable = linux::cpus::usable().unwrap();
    [usable[0], usable[usable.len().min(2) - 1]]
}

/// All buffers from one half to the other and back, with these features of the ring.
fn cross(features: RingFeatures, direction: Direction, cpus: [usize; 2]) {
    let arena = Arena::new(features, SIZE, u64::from(PLACES * PLACE_BYTES));
    let (mut driver, mut device) = (arena.driver(), arena.device());
    let (kick, call) = (Waker::default(), Waker::default());
    let (arena, wakers) = (&arena, [&kick, &call]);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            linux::cpus::bind(&cpus[1..]).unwrap();
            serve(direction, device.as_mut(), wakers);
        });
        scope.spawn(move || {
            linux::cpus::bind(&cpus[..1]).unwrap();
            drive(arena, direction, driver.as_mut(), wakers);
        });
    });
}

#[test]
fn buffers_cross_two_threads_whole_and_in_order() {
    let cpus = cpus();
    let turns = if cpus[0] == cpus[1] { " in turns: this process may use no other" } else { "" };
    for layout in [RingLayout::Split, RingLayout::Packed] {
        for direction in [Direction::ToDevice, Direction::FromDevice] {
            let mut crossed = Vec::new();
            for (event_idx, in_order) in [(false, false), (true, false), (false, true), (true, true)] {
                let features = RingFeatures { event_idx, in_order, ..RingFeatures::plain(layout) };
                cross(features, direction, cpus);
                crossed.push(match (event_idx, in_order) {
                    (false, false) => "plain",
                    (true, false) => "EVENT_IDX",
                    (false, true) => "IN_ORDER",
                    (true, true) => "EVENT_IDX and IN_ORDER",
                });
            }
            println!(
                "two threads on the CPUs {cpus:?}{turns}, {layout:?}, {direction:?}: {BUFFERS} buffers each {}",
                crossed.join(", ")
            );
        }
    }
}
