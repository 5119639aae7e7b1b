//! `make bench-virtqueue`: what a buffer costs, in nanoseconds and in instructions.
//!
//! Without arguments it prints the tables, each row as soon as it is measured, and says on stderr where it
//! is. `bench count CASE BURST ROUNDS` does one case's work and nothing else, for an instruction counter.
//! Rules of measuring: cases alternate within each repeat, so that drift hits all alike; medians with a 95 %
//! interval of the median from the order statistics.

use std::time::Instant;

#[path = "bench/case.rs"]
mod case;
#[path = "bench/measure.rs"]
mod measure;
#[path = "bench/oracle.rs"]
mod oracle;
#[path = "bench/threads.rs"]
mod threads;

use case::{BURSTS, Bench, SIZE, case, cases};
use measure::{instructions, median, shown};
use oracle::Oracle;

const REPEATS: usize = 21;
/// Says in `count` that the device half is that of `virtio-queue`.
const THEIRS: &str = "virtio-queue: ";

fn count(name: &str, burst: usize, rounds: usize) {
    let (asks, bytes, notifications) = if let Some(name) = name.strip_prefix(THEIRS) {
        let mut oracle = Oracle::new(case(name), burst);
        (0..rounds).for_each(|_| oracle.round());
        (case(name).asks, oracle.bytes, oracle.notifications)
    } else {
        let mut bench = Bench::new(case(name), burst);
        (0..rounds).for_each(|_| bench.round());
        (bench.case.asks, bench.bytes, bench.notifications)
    };
    // Both sides went to sleep after every burst, so each was asked for a notification.
    assert_eq!(notifications, if asks { 2 * rounds as u64 } else { 0 });
    assert_eq!(bytes, (64 * burst * rounds) as u64);
}

fn same_thread(count_instructions: bool) {
    println!("\nSame thread, driver half and device half, 64-byte buffers, queue of {SIZE}: per buffer");
    println!("asking: each burst decides about kick and call and arms; event_idx does so by position.");
    println!("3 pieces: 12 + 20 + 32 bytes, as a chain in the ring or as an indirect table;");
    println!("bursts of 256 of them as chains do not fit the queue and have no row.");
    println!("{:<20} {:>5} {:>8} {:>17} {:>12}", "case", "burst", "ns", "95 % interval", "instructions");
    for burst in BURSTS {
        eprintln!("same thread, burst {burst}");
        let mut benches: Vec<_> = cases()
            .filter(|case| case.fits(burst))
            .map(|case| (Bench::new(case, burst), Vec::new()))
            .collect();
        let rounds = (100_000 / burst).max(400);
        for repeat in 0..=REPEATS {
            for (bench, samples) in &mut benches {
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
        for (bench, samples) in &mut benches {
            let name = bench.case.name;
            let (mid, low, high) = median(samples);
            std::hint::black_box(bench.bytes);
            let counted = shown(if count_instructions { instructions(name, burst) } else { None });
            println!("{name:<20} {burst:>5} {mid:>8.2} [{low:>6.2}, {high:>6.2}] {counted:>12}");
        }
    }
}

/// Every row of the split ring whose work `virtio-queue` can do too: it has neither IN_ORDER nor packed.
fn beside_virtio_queue(count_instructions: bool) {
    const ROUNDS: usize = 100;
    println!("\nDevice half alone, split ring, beside virtio-queue on the same ring: ns per buffer;");
    println!("instructions per buffer with the same driver half, which is in both");
    println!(
        "{:<20} {:>5} {:>9} {:>15} {:>13} {:>17} {:>6} {:>16} {:>8} {:>8}",
        "case", "burst", "tautline", "", "virtio-queue", "", "ratio", "", "instr.", "theirs"
    );
    let both = ["split", "split, asking", "split+event_idx", "split, 3 pieces", "split+indirect, 3"];
    for case in both.map(case) {
        eprintln!("beside virtio-queue, {}", case.name);
        for burst in BURSTS.into_iter().filter(|burst| case.fits(*burst)) {
            let (mut ours, mut theirs) = (Bench::new(case, burst), Oracle::new(case, burst));
            let (mut a, mut b, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
            for repeat in 0..=REPEATS {
                let mut sums = [0.0; 2];
                for round in 0..ROUNDS {
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
                    a.push(sums[0] / ROUNDS as f64);
                    b.push(sums[1] / ROUNDS as f64);
                    ratio.push(sums[1] / sums[0]);
                }
            }
            let ((am, al, ah), (bm, bl, bh)) = (median(&mut a), median(&mut b));
            let (rm, rl, rh) = median(&mut ratio);
            let counted = |name: &str| shown(count_instructions.then(|| instructions(name, burst)).flatten());
            let (i, j) = (counted(case.name), counted(&format!("{THEIRS}{}", case.name)));
            println!(
                "{:<20} {burst:>5} {am:>9.2} [{al:>6.2}, {ah:>6.2}] {bm:>12.2} [{bl:>7.2}, {bh:>7.2}] {rm:>5.1}x [{rl:>6.2}, {rh:>6.2}] {i:>8} {j:>8}",
                case.name
            );
        }
    }
}

/// Instructions per buffer that must not be exceeded: what was measured, and a tenth for other compilers.
const LIMITS: [(&str, usize, f64); 4] = [
    ("split", 32, 216.0),
    ("split+in_order", 32, 208.0),
    ("packed", 32, 274.0),
    ("packed+in_order", 32, 201.0),
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

/// One line for the ablation: name, nanoseconds and instructions of the two fastest paths.
fn ablation(name: &str) {
    for case in ["split", "packed+in_order"].map(case) {
        let mut bench = Bench::new(case, 32);
        let mut samples: Vec<f64> = (0..REPEATS)
            .map(|_| {
                let started = Instant::now();
                (0..6_000).for_each(|_| bench.round());
                started.elapsed().as_nanos() as f64 / (6_000.0 * 32.0)
            })
            .collect();
        let (mid, low, high) = median(&mut samples);
        let counted = shown(instructions(case.name, 32));
        println!("{name:<14} {:<16} {mid:>7.2} [{low:>6.2}, {high:>6.2}] {counted:>8}", case.name);
    }
}

fn all_instructions() {
    println!("Instructions per buffer, driver half and device half, queue of {SIZE}");
    println!("{:<20} {}", "case", BURSTS.map(|burst| format!("{burst:>8}")).concat());
    for case in cases() {
        let counted = |burst| if case.fits(burst) { instructions(case.name, burst) } else { None };
        println!("{:<20} {}", case.name, BURSTS.map(|b| format!("{:>8}", shown(counted(b)))).concat());
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["count", case, burst, rounds] => {
            count(case, burst.parse().expect("a burst size"), rounds.parse().expect("a number"));
        }
        ["ablation", name] => ablation(name),
        ["threads"] => threads::table(),
        ["gate"] => std::process::exit(i32::from(!gate())),
        ["instructions"] => all_instructions(),
        ["quick"] => {
            same_thread(false);
            beside_virtio_queue(false);
        }
        _ => {
            same_thread(true);
            beside_virtio_queue(true);
            threads::table();
        }
    }
}
