//! `make bench-virtqueue`: what a buffer costs, in nanoseconds and in instructions.
//!
//! Without arguments it prints the tables. `bench count CASE BURST ROUNDS` does one case's work and nothing
//! else, for an instruction counter. Rules of measuring: cases alternate within each repeat, so that drift
//! hits all alike; medians with a 95 % interval of the median from the order statistics.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use virtqueue::mock::{Arena, DATA};
use virtqueue::{Buffer, Burst, DeviceQueue, Direction, DriverQueue, Layout, RingFeatures, Used};

#[path = "bench/oracle.rs"]
mod oracle;

const SIZE: u32 = 256;
const BURSTS: [usize; 5] = [1, 4, 32, 64, 256];
const REPEATS: usize = 21;

fn cases() -> Vec<(&'static str, RingFeatures)> {
    let split = RingFeatures::plain(Layout::Split);
    let packed = RingFeatures::plain(Layout::Packed);
    vec![
        ("split", split),
        ("split+event_idx", RingFeatures { event_idx: true, ..split }),
        ("split+indirect", RingFeatures { indirect: true, ..split }),
        ("split+in_order", RingFeatures { in_order: true, ..split }),
        ("packed", packed),
        ("packed+event_idx", RingFeatures { event_idx: true, ..packed }),
        ("packed+indirect", RingFeatures { indirect: true, ..packed }),
        ("packed+in_order", RingFeatures { in_order: true, ..packed }),
    ]
}

struct Bench {
    driver: Box<dyn DriverQueue>,
    device: Box<dyn DeviceQueue>,
    buffers: Vec<Buffer>,
    burst: Burst,
    used: Vec<Used>,
    bytes: u64,
    _arena: Arena,
}

impl Bench {
    fn new(features: RingFeatures, burst: usize) -> Self {
        let arena = Arena::new(features, SIZE, 1 << 20);
        let buffers =
            (0..burst as u32).map(|i| Buffer { address: DATA + u64::from(i) * 2048, len: 64, cookie: i });
        Bench {
            driver: arena.driver(),
            device: arena.device(),
            buffers: buffers.collect(),
            burst: Burst::new(burst),
            used: Vec::with_capacity(SIZE as usize),
            bytes: 0,
            _arena: arena,
        }
    }

    /// One burst there and back, in one thread: both halves, and notifications decided as in service.
    #[inline(always)]
    fn round(&mut self) {
        let n = self.buffers.len();
        assert_eq!(self.driver.add(&self.buffers, Direction::ToDevice), n);
        assert_eq!(self.device.take(&mut self.burst, n).expect("sound"), n);
        for chain in self.burst.chains() {
            self.bytes += chain.readable()[0].len_bytes() as u64;
        }
        self.device.complete_all(&mut self.burst);
        self.used.clear();
        assert_eq!(self.driver.reclaim(&mut self.used, n).expect("sound"), n);
    }

    /// The device half alone, over a full queue that the driver half has filled off the clock.
    fn device_round(&mut self) -> f64 {
        let n = self.buffers.len();
        let mut filled = 0;
        while filled < SIZE as usize {
            filled += self.driver.add(&self.buffers, Direction::ToDevice);
        }
        let started = Instant::now();
        for _ in 0..SIZE as usize / n {
            assert_eq!(self.device.take(&mut self.burst, n).expect("sound"), n);
            for chain in self.burst.chains() {
                self.bytes += chain.readable()[0].len_bytes() as u64;
            }
            self.device.complete_all(&mut self.burst);
        }
        let ns = started.elapsed().as_nanos() as f64;
        self.used.clear();
        assert_eq!(self.driver.reclaim(&mut self.used, usize::MAX).expect("sound"), SIZE as usize);
        ns
    }
}

/// Median and the order statistics that hold it with 95 % confidence.
fn median(samples: &mut [f64]) -> (f64, f64, f64) {
    samples.sort_by(f64::total_cmp);
    let n = samples.len();
    let half = (0.98 * (n as f64).sqrt()).ceil() as usize;
    (samples[n / 2], samples[(n / 2).saturating_sub(half)], samples[(n / 2 + half).min(n - 1)])
}

/// Instructions per buffer: the difference of two runs that differ only in their number of rounds, so that
/// everything around the work cancels. `None` where valgrind is not installed.
fn instructions(case: &str, burst: usize) -> Option<f64> {
    let count = |rounds: usize| {
        let me = std::env::current_exe().ok()?;
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(me)
            .args(["count", case, &burst.to_string(), &rounds.to_string()])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr);
        text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse::<f64>().ok())
    };
    // Both counts pass through every position of the ring the same number of times per round.
    let (few, many) = (1024 / burst.min(256), 5 * 1024 / burst.min(256));
    Some((count(many)? - count(few)?) / ((many - few) * burst) as f64)
}

fn count(case: &str, burst: usize, rounds: usize) {
    if case == "virtio-queue" || case == "split (device half)" {
        let mut oracle = oracle::Oracle::new(SIZE, burst);
        for _ in 0..rounds {
            oracle.round(case == "virtio-queue");
        }
        return;
    }
    let (_, features) = cases().into_iter().find(|(name, _)| *name == case).expect("a case of the table");
    let mut bench = Bench::new(features, burst);
    for _ in 0..rounds {
        bench.round();
    }
    assert_eq!(bench.bytes, (64 * burst * rounds) as u64);
}

fn same_thread(count_instructions: bool) {
    println!("\nSame thread, driver half and device half, 64-byte buffers, queue of {SIZE}: per buffer");
    println!("{:<18} {:>5} {:>8} {:>17} {:>12}", "case", "burst", "ns", "95 % interval", "instructions");
    for burst in BURSTS {
        let mut benches: Vec<_> = cases()
            .into_iter()
            .map(|(name, features)| (name, Bench::new(features, burst), Vec::new()))
            .collect();
        let rounds = (200_000 / burst).max(400);
        for repeat in 0..=REPEATS {
            for (_, bench, samples) in &mut benches {
                let started = Instant::now();
                for _ in 0..rounds {
                    bench.round();
                }
                // The first repeat warms up.
                if repeat > 0 {
                    samples.push(started.elapsed().as_nanos() as f64 / (rounds * burst) as f64);
                }
            }
        }
        for (name, bench, samples) in &mut benches {
            let (mid, low, high) = median(samples);
            std::hint::black_box(bench.bytes);
            let counted = if count_instructions { instructions(name, burst) } else { None };
            let counted = counted.map_or("-".to_string(), |n| format!("{n:.1}"));
            println!("{name:<18} {burst:>5} {mid:>8.2} [{low:>6.2}, {high:>6.2}] {counted:>12}");
        }
    }
}

fn beside_virtio_queue() {
    println!("\nDevice half alone, split ring, beside virtio-queue on the same ring: ns per buffer");
    println!(
        "{:>5} {:>10} {:>17} {:>14} {:>17} {:>7}",
        "burst", "tautline", "95 % interval", "virtio-queue", "95 % interval", "ratio"
    );
    for burst in BURSTS {
        let mut ours = Bench::new(RingFeatures::plain(Layout::Split), burst);
        let mut theirs = oracle::Oracle::new(SIZE, burst);
        let (mut a, mut b, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for repeat in 0..=REPEATS {
            let mut sums = [0.0; 2];
            for round in 0..400 {
                // A B B A.
                if round % 2 == 0 {
                    sums[0] += ours.device_round();
                    sums[1] += theirs.device_round();
                } else {
                    sums[1] += theirs.device_round();
                    sums[0] += ours.device_round();
                }
            }
            if repeat > 0 {
                a.push(sums[0] / (400.0 * f64::from(SIZE)));
                b.push(sums[1] / (400.0 * f64::from(SIZE)));
                ratio.push(sums[1] / sums[0]);
            }
        }
        let ((am, al, ah), (bm, bl, bh)) = (median(&mut a), median(&mut b));
        let (rm, rl, rh) = median(&mut ratio);
        println!(
            "{burst:>5} {am:>10.2} [{al:>6.2}, {ah:>6.2}] {bm:>14.2} [{bl:>6.2}, {bh:>6.2}] {rm:>6.2}x [{rl:.2}, {rh:.2}]"
        );
    }
}

/// Instructions per buffer that must not be exceeded: what was measured, and a tenth for other compilers.
const LIMITS: [(&str, usize, f64); 4] = [
    ("split", 32, 258.0),
    ("split+in_order", 32, 232.0),
    ("packed", 32, 285.0),
    ("packed+in_order", 32, 212.0),
];

/// Counts instructions, which repeat where nanoseconds do not, and says whether all limits are kept.
fn gate() -> bool {
    LIMITS.iter().fold(true, |kept, &(case, burst, limit)| {
        let Some(counted) = instructions(case, burst) else {
            println!("{case}, burst {burst}: could not count; install valgrind");
            return false;
        };
        let verdict = if counted <= limit { "kept" } else { "EXCEEDED" };
        println!("{case}, burst {burst}: {counted:.1} instructions per buffer, limit {limit}: {verdict}");
        kept && counted <= limit
    })
}

fn pin(cpu: usize) {
    let mut set = nix::sched::CpuSet::new();
    if set.set(cpu).is_ok() {
        // Where pinning is not allowed the figures are noisier, not wrong.
        let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set);
    }
}

fn two_threads() {
    println!("\nTwo threads on two cores, driver half and device half, queue of {SIZE}: per buffer");
    println!("{:<18} {:>5} {:>8} {:>17}", "case", "burst", "ns", "95 % interval");
    for burst in BURSTS {
        for (name, features) in cases() {
            let mut samples = Vec::new();
            for repeat in 0..=7 {
                let ns = two_threads_once(features, burst, (20_000 * burst).min(400_000));
                if repeat > 0 {
                    samples.push(ns);
                }
            }
            let (mid, low, high) = median(&mut samples);
            println!("{name:<18} {burst:>5} {mid:>8.2} [{low:>6.2}, {high:>6.2}]");
        }
    }
}

fn two_threads_once(features: RingFeatures, burst: usize, buffers: usize) -> f64 {
    let Bench { mut driver, mut device, buffers: one_burst, burst: mut chains, mut used, _arena, .. } =
        Bench::new(features, burst);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            while !stop.load(Ordering::Relaxed) {
                if device.take(&mut chains, burst).expect("sound") > 0 {
                    device.complete_all(&mut chains);
                } else {
                    std::hint::spin_loop();
                }
            }
        });
        pin(0);
        let started = Instant::now();
        let mut done = 0;
        while done < buffers {
            let n = one_burst.len().min(driver.free_descriptors().into());
            driver.add(&one_burst[..n], Direction::ToDevice);
            used.clear();
            done += driver.reclaim(&mut used, usize::MAX).expect("sound");
        }
        let ns = started.elapsed().as_nanos() as f64 / done as f64;
        stop.store(true, Ordering::Relaxed);
        ns
    })
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["count", case, burst, rounds] => {
            count(case, burst.parse().expect("a burst size"), rounds.parse().expect("a number"));
        }
        // One line for the ablation: name, nanoseconds and instructions of the two fastest paths.
        ["ablation", name] => {
            for case in ["split", "packed+in_order"] {
                let (_, features) = cases().into_iter().find(|(n, _)| *n == case).expect("a case");
                let mut bench = Bench::new(features, 32);
                let mut samples: Vec<f64> = (0..REPEATS)
                    .map(|_| {
                        let started = Instant::now();
                        (0..6_000).for_each(|_| bench.round());
                        started.elapsed().as_nanos() as f64 / (6_000.0 * 32.0)
                    })
                    .collect();
                let (mid, low, high) = median(&mut samples);
                let counted = instructions(case, 32).map_or("-".to_string(), |n| format!("{n:.1}"));
                println!("{name:<14} {case:<16} {mid:>7.2} [{low:>6.2}, {high:>6.2}] {counted:>8}");
            }
        }
        ["threads"] => two_threads(),
        ["gate"] => std::process::exit(i32::from(!gate())),
        ["instructions"] => {
            println!("Instructions per buffer, driver half and device half, queue of {SIZE}");
            println!("{:<18} {}", "case", BURSTS.map(|burst| format!("{burst:>8}")).concat());
            for (name, _) in cases() {
                let row = BURSTS.map(|burst| match instructions(name, burst) {
                    Some(counted) => format!("{counted:>8.1}"),
                    None => format!("{:>8}", "-"),
                });
                println!("{name:<18} {}", row.concat());
            }
        }
        ["quick"] => {
            same_thread(false);
            beside_virtio_queue();
        }
        _ => {
            same_thread(true);
            beside_virtio_queue();
            for burst in [1, 32, 256] {
                let show = |n: Option<f64>| n.map_or("-".to_string(), |n| format!("{n:.1}"));
                let (ours, theirs) =
                    (instructions("split (device half)", burst), instructions("virtio-queue", burst));
                println!(
                    "instructions per buffer with the same driver half, burst {burst}: tautline {}, virtio-queue {}",
                    show(ours),
                    show(theirs)
                );
            }
            two_threads();
        }
    }
}
