//! Core-to-core latency: how long a core waits for a cache line that another core has just written.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use linux::cpus::bind;
use measure::statistics::median;

const LINES: usize = 64;
/// The number of counts of which the median is taken: any count may have been interrupted.
const TURNS: u64 = 15;
/// The distance from one used line to the next, in lines of 128 bytes: neighbours share neither a prefetcher's region
/// nor only a few sets of the caches.
const SPACING: usize = 19;

/// Two cache lines, as some prefetchers fetch them.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Measures the core-to-core latency: how long the reader waits for one cache line that the writer has just written,
/// in ns. The lines are read one after the other, each naming the next. The measurement takes less than a
/// millisecond. The calling thread is the reader and stays bound to `reader_cpu`.
///
/// # Errors
/// One of the threads cannot be bound to its CPU, or the writer's thread panics.
pub fn line_ns(reader_cpu: usize, writer_cpu: usize) -> std::io::Result<f64> {
    let lines: Vec<Line> = (0..LINES * SPACING).map(|_| Line::default()).collect();
    let line = |at: u64| &lines[at as usize * SPACING].0;
    // Odd while the writer has its turn.
    let turn = Line::default();
    let wait = |parity: u64| {
        loop {
            let now = turn.0.load(Ordering::Acquire);
            if now >= 2 * TURNS || now % 2 == parity {
                break now;
            }
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let pinned = bind(&[writer_cpu]);
            loop {
                let now = wait(1);
                if now >= 2 * TURNS {
                    return pinned;
                }
                (0..LINES as u64).for_each(|at| line(at).store(next(at), Ordering::Relaxed));
                turn.0.store(now + 1, Ordering::Release);
            }
        });
        let pinned = bind(&[reader_cpu]);
        let times: Vec<f64> = (0..TURNS)
            .map(|_| {
                turn.0.fetch_add(1, Ordering::Release);
                wait(0);
                let begin = Instant::now();
                let last = (0..LINES).fold(0, |at, _| line(at).load(Ordering::Relaxed));
                let elapsed = begin.elapsed();
                std::hint::black_box(last);
                elapsed.as_nanos() as f64 / LINES as f64
            })
            .collect();
        let joined =
            writer.join().unwrap_or_else(|_| Err(std::io::Error::other("the other core's thread failed")));
        pinned.and(joined)?;
        Ok(median(&times).unwrap_or_default())
    })
}

/// Goes through all lines in an order that no prefetcher expects (Hull and Dobell, 1962: every number once).
fn next(at: u64) -> u64 {
    (at * 37 + 29) % LINES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_once() {
        let mut seen = [false; LINES];
        let last = (0..LINES).fold(0, |at, _| {
            assert!(!std::mem::replace(&mut seen[at as usize], true));
            next(at)
        });
        assert_eq!(last, 0);
    }

    #[test]
    fn a_line_takes_some_time() {
        let cpus = linux::cpus::usable().unwrap();
        let (one, other) = (cpus[0], cpus[cpus.len() - 1]);
        let measured = std::thread::spawn(move || line_ns(one, other).unwrap()).join().unwrap();
        assert!(measured > 0.0);
        assert!(std::thread::spawn(move || line_ns(one, 1 << 20)).join().unwrap().is_err());
    }
}
