//! The cache-transfer limit: the rate at which two cores can move the cache lines of a frame between them, when they
//! do nothing else. No switch between these cores can be faster.
//!
//! Two threads pass slots to each other through rings in ordinary memory, as a driver and a device do. For
//! each frame the driver stores a descriptor. One side stores every word of some lines of a buffer, and the other
//! loads every word of them. Then the device stores the completion. One index publishes the slots of each burst,
//! which is the best case of a virtqueue. Nothing is checked, decided or copied.
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use linux::cpus::bind;

/// Cache lines of one frame that move in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesPerFrame {
    /// Written by the driver's core, read by the switch's.
    pub to_switch: usize,
    /// Written by the switch's core, read by the driver's.
    pub to_driver: usize,
}

impl LinesPerFrame {
    /// The cache lines of a frame of `frame_bytes` bytes, once for each direction in which it goes. Drivers put the
    /// net header into the line before.
    pub fn of(frame_bytes: u16, to_switch: bool, to_driver: bool) -> Self {
        let lines = |goes: bool| if goes { usize::from(frame_bytes).div_ceil(64) } else { 0 };
        LinesPerFrame { to_switch: lines(to_switch), to_driver: lines(to_driver) }
    }
}

/// The positions of a driver's buffers. Buffers are used in turn, so prefetchers find them, and there are only as
/// many as the ring has slots. A driver that shuffles its buffers, or has more of them, moves more expensive lines,
/// so its limit is lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Buffers are an odd number of lines apart, 2 to 2.5 KiB, so that they do not share a few cache sets.
    OddLines,
    /// Buffers have a page each, and the same offset in it.
    Pages,
}

impl Spacing {
    /// Cache lines from one buffer to the next.
    pub fn lines(self) -> usize {
        match self {
            Spacing::OddLines => 37,
            Spacing::Pages => PAGE_BYTES / (LINE_WORDS * size_of::<u64>()),
        }
    }
}

const PAGE_BYTES: usize = 4096;
const LINE_WORDS: usize = 8;
const SLOTS: u64 = 256;
const BURST: u64 = 32;

/// The parts of the ring that move with a frame, besides its buffer (VIRTIO 1.2, 2.7 and 2.8). The 2 bytes of a frame
/// in the available ring of a split virtqueue are left out, as are flags and event indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// A completion overwrites the 16-byte descriptor (packed ring); otherwise it is 8 bytes in the used ring.
    pub packed: bool,
    /// One completion stands for a whole burst (VIRTIO_F_IN_ORDER).
    pub in_order: bool,
}

/// An index in a separate cache line: neighbours in its line would cause additional transfers.
#[repr(align(128))]
#[derive(Default)]
struct Index(AtomicU64);

/// Words of a descriptor: 16 bytes.
const DESCRIPTOR_WORDS: usize = 2;

/// One direction of frames: a ring, its buffers, and the position of each side.
struct Direction {
    ring: Ring,
    lines: usize,
    spacing_lines: usize,
    buffers: Words,
    descriptors: Words,
    /// The used ring, of a split ring.
    used: Words,
    offered: Index,
    done: Index,
}

/// Words that begin with a page, as a ring's parts and a driver's buffers do at least with a line.
struct Words {
    words: Vec<AtomicU64>,
    first: usize,
}

impl Words {
    fn new(count: usize) -> Self {
        let spare = PAGE_BYTES / size_of::<u64>();
        let words: Vec<_> = (0..count + spare).map(|_| AtomicU64::new(0)).collect();
        let first = words.as_ptr().align_offset(PAGE_BYTES);
        Words { words, first }
    }

    fn slice(&self, first: usize, count: usize) -> &[AtomicU64] {
        &self.words[self.first + first..][..count]
    }
}

fn store(words: &[AtomicU64], value: u64) {
    words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
}

/// Returns a sum of the words, so that the compiler cannot leave out the loads.
fn load(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(word.load(Ordering::Relaxed)))
}

impl Direction {
    fn new(ring: Ring, lines: usize, spacing: Spacing) -> Self {
        let slots = SLOTS as usize;
        let spacing_lines = spacing.lines().max(lines);
        Direction {
            ring,
            lines,
            spacing_lines,
            buffers: Words::new(slots * spacing_lines * LINE_WORDS),
            descriptors: Words::new(slots * DESCRIPTOR_WORDS),
            used: Words::new(slots),
            offered: Index::default(),
            done: Index::default(),
        }
    }

    fn buffer(&self, at: u64) -> &[AtomicU64] {
        let slot = (at % SLOTS) as usize;
        self.buffers.slice(slot * self.spacing_lines * LINE_WORDS, self.lines * LINE_WORDS)
    }

    fn descriptor(&self, at: u64) -> &[AtomicU64] {
        self.descriptors.slice((at % SLOTS) as usize * DESCRIPTOR_WORDS, DESCRIPTOR_WORDS)
    }

    /// The words that show the completion of a slot.
    fn completion(&self, at: u64) -> &[AtomicU64] {
        if self.ring.packed { self.descriptor(at) } else { self.used.slice((at % SLOTS) as usize, 1) }
    }

    /// The slots of a burst whose completions are written and read.
    fn completed(&self, burst: Range<u64>) -> Range<u64> {
        if self.ring.in_order && !burst.is_empty() { burst.end - 1..burst.end } else { burst }
    }

    /// The driver offers up to a burst of slots, their buffers written if they carry frames.
    fn offer(&self, driver: &mut Driver, carry: bool) {
        let burst = driver.offered..driver.offered + (SLOTS - (driver.offered - driver.reaped)).min(BURST);
        for at in burst.clone() {
            if carry {
                store(self.buffer(at), at);
            }
            store(self.descriptor(at), at);
        }
        if !burst.is_empty() {
            driver.offered = burst.end;
            // Pairs with the acquire in `serve`: the words of the slots are visible.
            self.offered.0.store(burst.end, Ordering::Release);
        }
    }

    /// The driver takes back up to a burst of slots, their buffers read if they carry frames.
    fn reap(&self, driver: &mut Driver, carry: bool) {
        // Pairs with the release in `serve`: those slots are no longer read, or contain the written words.
        let done = self.done.0.load(Ordering::Acquire);
        let burst = driver.reaped..done.min(driver.reaped + BURST);
        for at in self.completed(burst.clone()) {
            driver.sum = driver.sum.wrapping_add(load(self.completion(at)));
        }
        if carry {
            for at in burst.clone() {
                driver.sum = driver.sum.wrapping_add(load(self.buffer(at)));
            }
        }
        driver.reaped = burst.end;
    }

    /// The device serves up to `limit` slots: it reads their buffers or, where `put` is set, writes them. Returns how
    /// many.
    fn serve(&self, device: &mut Device, limit: u64, put: bool) -> u64 {
        let offered = self.offered.0.load(Ordering::Acquire);
        let burst = device.done..offered.min(device.done + limit.min(BURST));
        for at in burst.clone() {
            device.sum = device.sum.wrapping_add(load(self.descriptor(at)));
            match put {
                true => store(self.buffer(at), at),
                false => device.sum = device.sum.wrapping_add(load(self.buffer(at))),
            }
        }
        self.completed(burst.clone()).for_each(|at| store(self.completion(at), at));
        if !burst.is_empty() {
            self.done.0.store(burst.end, Ordering::Release);
        }
        let served = burst.end - device.done;
        device.done = burst.end;
        served
    }
}

/// The driver's side of a direction.
#[derive(Default)]
struct Driver {
    offered: u64,
    reaped: u64,
    sum: u64,
}

/// The device's side of a direction.
#[derive(Default)]
struct Device {
    done: u64,
    sum: u64,
}

/// Measures frames per second between two CPUs, one for the driver and one for the switch. The calling thread acts as
/// the driver and stays bound to `driver_cpu`.
///
/// # Errors
/// One of the threads cannot be bound to its CPU, or the switch's thread panics.
pub fn frames_per_second(
    ring: Ring,
    lines: LinesPerFrame,
    spacing: Spacing,
    driver_cpu: usize,
    switch_cpu: usize,
    duration: Duration,
) -> std::io::Result<f64> {
    let direction = |lines: usize| (lines > 0).then(|| Direction::new(ring, lines, spacing));
    let (there, back) = (direction(lines.to_switch), direction(lines.to_driver));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let switch = scope.spawn(|| {
            bind(&[switch_cpu])?;
            let (mut taker, mut putter) = (Device::default(), Device::default());
            while !stop.load(Ordering::Relaxed) {
                if let Some(there) = &there {
                    there.serve(&mut taker, BURST, false);
                }
                if let Some(back) = &back {
                    // As many frames go out as came in.
                    let owed = if there.is_some() { taker.done - putter.done } else { BURST };
                    back.serve(&mut putter, owed, true);
                }
            }
            Ok::<u64, std::io::Error>(taker.sum.wrapping_add(putter.sum))
        });
        let driver = || {
            bind(&[driver_cpu])?;
            let (mut sender, mut receiver) = (Driver::default(), Driver::default());
            let begin = Instant::now();
            let elapsed = loop {
                if let Some(back) = &back {
                    back.reap(&mut receiver, true);
                    back.offer(&mut receiver, false);
                }
                if let Some(there) = &there {
                    there.reap(&mut sender, false);
                    there.offer(&mut sender, true);
                }
                let elapsed = begin.elapsed();
                if elapsed >= duration {
                    break elapsed;
                }
            };
            std::hint::black_box(sender.sum.wrapping_add(receiver.sum));
            let last = if back.is_some() { &receiver } else { &sender };
            Ok::<f64, std::io::Error>(last.reaped as f64 / elapsed.as_secs_f64())
        };
        let rate = driver();
        stop.store(true, Ordering::Relaxed);
        let joined =
            switch.join().unwrap_or_else(|_| Err(std::io::Error::other("the other core's thread failed")));
        std::hint::black_box(joined?);
        rate
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RINGS: [Ring; 4] = [
        Ring { packed: false, in_order: false },
        Ring { packed: false, in_order: true },
        Ring { packed: true, in_order: false },
        Ring { packed: true, in_order: true },
    ];
    const SPACINGS: [Spacing; 2] = [Spacing::OddLines, Spacing::Pages];

    #[test]
    fn frames_pass_each_way_and_both() {
        let cpus = linux::cpus::usable().unwrap();
        let (one, other) = (cpus[0], cpus[cpus.len() - 1]);
        for (ring, spacing) in RINGS.into_iter().zip(SPACINGS.into_iter().cycle()) {
            for (to_switch, to_driver) in [(2, 0), (0, 2), (24, 24)] {
                let lines = LinesPerFrame { to_switch, to_driver };
                // On a busy machine a thread may have no turn in so short a time: then again.
                let moved = std::thread::spawn(move || {
                    let time = Duration::from_millis(50);
                    let rate = || frames_per_second(ring, lines, spacing, one, other, time).unwrap();
                    (0..100).any(|_| rate() > 0.0)
                });
                assert!(moved.join().unwrap(), "{ring:?} {lines:?}");
            }
        }
    }

    /// Both sides in one thread: each sees everything that the other stored, and completions come as often as the ring
    /// requires.
    #[test]
    fn every_slot_goes_round() {
        for ring in RINGS {
            for put in [false, true] {
                let direction = Direction::new(ring, 2, Spacing::OddLines);
                let (mut driver, mut device) = (Driver::default(), Device::default());
                for _ in 0..50 {
                    direction.offer(&mut driver, !put);
                    assert_eq!(direction.serve(&mut device, 7, put), 7);
                    assert_eq!(direction.serve(&mut device, BURST, put), BURST - 7);
                    assert_eq!(direction.serve(&mut device, BURST, put), 0);
                    direction.reap(&mut driver, put);
                }
                let frames = 50 * BURST;
                assert_eq!((driver.offered, driver.reaped, device.done), (frames, frames, frames));
                let numbers: u64 = (0..frames).sum();
                let lasts: u64 = (0..50).map(|burst| burst * BURST + BURST - 1).sum();
                let completions = if ring.in_order { lasts } else { numbers };
                let completion_words = if ring.packed { 2 } else { 1 };
                let (carried, descriptors) = (numbers * 2 * LINE_WORDS as u64, numbers * 2);
                let (seen, taken) = if put { (carried, 0) } else { (0, carried) };
                assert_eq!(driver.sum, seen + completions * completion_words, "{ring:?} {put}");
                assert_eq!(device.sum, taken + descriptors, "{ring:?} {put}");
            }
        }
    }

    /// A buffer of one line is one line, and no two share one.
    #[test]
    fn buffers_are_whole_lines() {
        for spacing in SPACINGS {
            let direction = Direction::new(RINGS[0], 1, spacing);
            let at = |slot| direction.buffer(slot).as_ptr().addr();
            assert!((0..SLOTS).all(|slot| at(slot).is_multiple_of(64)));
            assert!((1..SLOTS).all(|slot| at(slot) - at(slot - 1) == spacing.lines() * 64), "{spacing:?}");
        }
        assert_eq!((Spacing::OddLines.lines(), Spacing::Pages.lines()), (37, 64));
    }

    #[test]
    fn a_driver_offers_no_more_than_the_ring_holds() {
        let direction = Direction::new(RINGS[0], 1, Spacing::OddLines);
        let (mut driver, mut device) = (Driver::default(), Device::default());
        (0..20).for_each(|_| direction.offer(&mut driver, true));
        assert_eq!(driver.offered, SLOTS);
        (0..20).for_each(|_| _ = direction.serve(&mut device, BURST, false));
        assert_eq!(device.done, SLOTS);
        direction.reap(&mut driver, false);
        direction.offer(&mut driver, true);
        assert_eq!((driver.reaped, driver.offered), (BURST, SLOTS + BURST));
    }
}
