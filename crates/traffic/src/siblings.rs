//! What a core can do while another thread may be at work on it: half of one, where a host runs something else on its
//! second thread, and no counter of a guest tells.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use measure::statistics::quantile;

use crate::bound::pin;

/// The upper quartile of so many turns: a thread that is at work a third of the time shows, an interrupt does not.
const TURNS: usize = 100;
/// Some microseconds a turn.
const STEPS: u64 = 4_000;

/// Nanoseconds that the same arithmetic takes each of two CPUs while the other one does it as well, so that two
/// threads of one core show. Takes about a millisecond.
///
/// # Errors
///
/// A CPU that this process may not use.
pub fn arithmetic_ns(cpus: [usize; 2]) -> std::io::Result<[f64; 2]> {
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let times = |cpu: usize| {
        let pinned = pin(cpu);
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < cpus.len() {
            std::hint::spin_loop();
        }
        let times: Vec<f64> = (0..TURNS).map(|_| turn_ns()).collect();
        done.fetch_add(1, Ordering::Relaxed);
        // For the other one, which may have begun later.
        while done.load(Ordering::Relaxed) < cpus.len() {
            turn_ns();
        }
        pinned.map(|()| quantile(&times, 0.75).unwrap_or_default())
    };
    std::thread::scope(|scope| {
        let threads = cpus.map(|cpu| scope.spawn(move || times(cpu)));
        let [one, other] = threads.map(|thread| {
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread of the measurement failed")))
        });
        Ok([one?, other?])
    })
}

/// More sums than one thread's units can add up at a time, none of which waits for another.
fn turn_ns() -> f64 {
    let begin = Instant::now();
    let mut sums = std::hint::black_box([1u64, 3, 5, 7, 11, 13, 17, 19]);
    for step in 0..std::hint::black_box(STEPS) {
        for sum in &mut sums {
            *sum = sum.rotate_left(5) ^ step;
        }
    }
    std::hint::black_box(sums);
    begin.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cpus_are_measured_and_others_are_an_error() {
        let (one, other) = crate::bound::two_cpus();
        assert!(arithmetic_ns([one, other]).unwrap().iter().all(|ns| *ns > 0.0));
        assert!(arithmetic_ns([one, 1 << 20]).is_err());
    }
}
