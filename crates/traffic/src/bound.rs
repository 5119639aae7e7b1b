//! What no switch can beat here: the same cache lines moved between the same two cores, and nothing else.
//!
//! Two threads pass slots to each other through rings in ordinary memory. For each frame one of them stores
//! every word of so many lines, the other loads every word of them; slots are published by one index for
//! each burst, as a virtqueue does at best. No descriptor, no check, no decision.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Cache lines that one frame moves each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesPerFrame {
    /// Written by the driver's core, read by the switch's.
    pub to_switch: usize,
    /// Written by the switch's core, read by the driver's.
    pub to_driver: usize,
}

const LINE_WORDS: usize = 8;
/// Lines from one slot to the next: packet buffers lie 2 to 2.5 KiB apart, and no prefetcher runs from one on
/// to the next. Odd, as DPDK spaces its own, so that they do not share a few sets of the caches.
const SLOT_LINES: usize = 37;
const SLOTS: u64 = 256;
const BURST: u64 = 32;

/// An index in a line of its own: neighbours would share its traffic.
#[repr(align(128))]
#[derive(Default)]
struct Index(AtomicU64);

/// One direction: slots, and how far each side is.
struct Way {
    lines: usize,
    words: Vec<AtomicU64>,
    written: Index,
    read: Index,
}

impl Way {
    fn new(lines: usize) -> Self {
        let stride = SLOT_LINES.max(lines) * LINE_WORDS;
        let words = (0..SLOTS as usize * stride).map(|_| AtomicU64::new(0)).collect();
        Way { lines, words, written: Index::default(), read: Index::default() }
    }

    fn slot(&self, at: u64) -> &[AtomicU64] {
        let first = (at % SLOTS) as usize * SLOT_LINES.max(self.lines) * LINE_WORDS;
        &self.words[first..first + self.lines * LINE_WORDS]
    }

    /// Writes up to a burst, as far as there is room; how many slots.
    fn write(&self, next: &mut u64, limit: u64) -> u64 {
        // Pairs with the release in `read`: those slots are no longer looked at.
        let room = SLOTS - (*next - self.read.0.load(Ordering::Acquire));
        let count = room.min(BURST).min(limit);
        for at in *next..*next + count {
            for word in self.slot(at) {
                word.store(at, Ordering::Relaxed);
            }
        }
        if count > 0 {
            *next += count;
            // Pairs with the acquire in `read`: the slots' words are there.
            self.written.0.store(*next, Ordering::Release);
        }
        count
    }

    /// Reads up to a burst of what is there; how many slots, and a sum that keeps the loads.
    fn read(&self, next: &mut u64, sum: &mut u64) -> u64 {
        let count = (self.written.0.load(Ordering::Acquire) - *next).min(BURST);
        for at in *next..*next + count {
            for word in self.slot(at) {
                *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
            }
        }
        if count > 0 {
            *next += count;
            self.read.0.store(*next, Ordering::Release);
        }
        count
    }
}

/// Frames per second between two CPUs, one as the driver's, one as the switch's.
pub fn frames_per_second(
    lines: LinesPerFrame,
    driver_cpu: usize,
    switch_cpu: usize,
    duration: Duration,
) -> std::io::Result<f64> {
    let (there, back) = (Way::new(lines.to_switch), Way::new(lines.to_driver));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let switch = scope.spawn(|| {
            pin(switch_cpu)?;
            let (mut read, mut written, mut sum) = (0, 0, 0);
            while !stop.load(Ordering::Relaxed) {
                match (lines.to_switch, lines.to_driver) {
                    (_, 0) => _ = there.read(&mut read, &mut sum),
                    (0, _) => _ = back.write(&mut written, BURST),
                    // What came in goes out.
                    _ => {
                        there.read(&mut read, &mut sum);
                        let owed = read - written;
                        back.write(&mut written, owed);
                    }
                }
            }
            Ok::<u64, std::io::Error>(sum)
        });
        let driver = || {
            pin(driver_cpu)?;
            let (mut read, mut written, mut sum) = (0, 0, 0);
            let begin = Instant::now();
            let elapsed = loop {
                if lines.to_switch > 0 {
                    there.write(&mut written, BURST);
                }
                if lines.to_driver > 0 {
                    back.read(&mut read, &mut sum);
                }
                let elapsed = begin.elapsed();
                if elapsed >= duration {
                    break elapsed;
                }
            };
            std::hint::black_box(sum);
            let frames = if lines.to_driver > 0 { read } else { there.read.0.load(Ordering::Relaxed) };
            Ok::<f64, std::io::Error>(frames as f64 / elapsed.as_secs_f64())
        };
        let rate = driver();
        stop.store(true, Ordering::Relaxed);
        let joined =
            switch.join().unwrap_or_else(|_| Err(std::io::Error::other("the other core's thread failed")));
        std::hint::black_box(joined?);
        rate
    })
}

/// Keeps the calling thread on one CPU.
pub fn pin(cpu: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_each_way_and_both() {
        let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpus: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap()).collect();
        let (one, other) = (cpus[0], cpus[cpus.len() - 1]);
        for (to_switch, to_driver) in [(2, 0), (0, 2), (24, 24)] {
            let lines = LinesPerFrame { to_switch, to_driver };
            let rate = std::thread::spawn(move || {
                frames_per_second(lines, one, other, Duration::from_millis(50)).unwrap()
            });
            assert!(rate.join().unwrap() > 0.0, "{lines:?}");
        }
    }
}
