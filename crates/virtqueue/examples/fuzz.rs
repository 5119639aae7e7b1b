//! Runs the hostile-peer harness in a loop: random scripts, and mutations of the corpus.
//!
//! `fuzz EXECUTIONS [--concurrent] [--seed N] [--corpus DIR]`: half of the executions for each target. With
//! `--concurrent` another thread writes over the rings all the while. Prints the counts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use virtqueue::mock::fuzz::{Harness, Target};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// A new script: fresh, or a seed with some bytes changed, cut or joined to another.
fn script(random: &mut Random, corpus: &[Vec<u8>], into: &mut Vec<u8>) {
    into.clear();
    let fresh = corpus.is_empty() || random.below(4) == 0;
    if fresh {
        let len = 1 + random.below(160);
        while into.len() < len {
            into.extend_from_slice(&random.next().to_le_bytes());
        }
        into.truncate(len);
        return;
    }
    into.extend_from_slice(&corpus[random.below(corpus.len())]);
    if random.below(4) == 0 {
        let other = &corpus[random.below(corpus.len())];
        let keep = random.below(into.len() + 1);
        into.truncate(keep);
        into.extend_from_slice(&other[random.below(other.len() + 1)..]);
    }
    for _ in 0..random.below(8) {
        if !into.is_empty() {
            let at = random.below(into.len());
            match random.below(3) {
                0 => into[at] = random.next() as u8,
                1 => into[at] ^= 1 << random.below(8),
                _ => into.insert(at, random.next() as u8),
            }
        }
    }
}

fn corpus(folder: Option<&str>, target: Target) -> Vec<Vec<u8>> {
    let Some(folder) = folder else { return Vec::new() };
    let name = match target {
        Target::HostileDriver => "hostile_driver",
        Target::HostileDevice => "hostile_device",
    };
    let entries = std::fs::read_dir(format!("{folder}/{name}")).into_iter().flatten();
    entries.flatten().filter_map(|entry| std::fs::read(entry.path()).ok()).collect()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
    let executions: u64 = args.first().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let seed: u64 = value("--seed").and_then(|n| n.parse().ok()).unwrap_or(0x5eed);
    let concurrent = args.iter().any(|arg| arg == "--concurrent");
    let harness = Harness::new();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        if concurrent {
            scope.spawn(|| harness.scribble(&stop, seed));
        }
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut bytes = Vec::new();
        for target in [Target::HostileDriver, Target::HostileDevice] {
            let corpus = corpus(value("--corpus").map(String::as_str), target);
            for _ in 0..executions / 2 {
                script(&mut random, &corpus, &mut bytes);
                if catch_unwind(AssertUnwindSafe(|| harness.run(target, &bytes))).is_err() {
                    eprintln!("{target:?} fails on {bytes:?}");
                    std::process::exit(1);
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = started.elapsed().as_secs_f64();
    let done = done.into_inner();
    println!(
        "{done} executions in {seconds:.1} s ({:.0} per s), concurrent: {concurrent}",
        done as f64 / seconds
    );
}
