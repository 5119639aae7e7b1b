//! Measures the speed of a core whose SMT sibling may be busy. If the host runs another program on the core's second
//! hardware thread, the core does half as much work, and no counter in a guest shows it. The module therefore times
//! the same arithmetic repeatedly, and compares each CPU with its own best time.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use linux::cpus;

use crate::statistics::quantile;

/// The number of turns, of which the upper quartile is taken: a thread that works for a third of the time is visible,
/// an interrupt is not.
const TURNS: usize = 100;
/// The steps of a turn, which takes some microseconds; unoptimised code takes ten times as long for each step.
const STEPS: u64 = if cfg!(debug_assertions) { 400 } else { 4_000 };

/// A core that takes this many times as long as its best time is disturbed. Beside a busy sibling a core takes up to
/// twice as long; if the sibling mostly waits for memory, a sixth longer.
pub const DISTURBED: f64 = 1.08;

/// The time in ns that each of some CPUs takes for the same arithmetic while the other CPUs do it as well, so that
/// two hardware threads of one core can be recognised. The measurement takes about 1 ms.
///
/// # Errors
///
/// This process may not use one of the CPUs.
pub fn arithmetic_ns(cpus: &[usize]) -> io::Result<Vec<f64>> {
    let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let times = |cpu: usize| {
        let bound = cpus::bind(&[cpu]);
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < cpus.len() {
            std::hint::spin_loop();
        }
        let times: Vec<f64> = (0..TURNS).map(|_| turn_ns()).collect();
        done.fetch_add(1, Ordering::Relaxed);
        // Continues for the others, which may have begun later.
        while done.load(Ordering::Relaxed) < cpus.len() {
            turn_ns();
        }
        bound.map(|()| quantile(&times, 0.75).unwrap_or_default())
    };
    let times = &times;
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || times(cpu))).collect();
        let failed = || Err(io::Error::other("a thread of the measurement failed"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
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

/// The best time of each CPU. If the two CPUs of a guest are hardware threads of one core, the best time is measured
/// while both are busy, and no trial is found to be disturbed.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    /// The number of measurements after which an earlier best time is forgotten; `None` never forgets.
    memory: Option<usize>,
    looks: usize,
    least_ns: Vec<f64>,
    least_before_ns: Vec<f64>,
}

impl Baseline {
    /// A baseline that forgets a best time after `looks` measurements and before twice as many, so that a machine
    /// that has become warm and slow is not disturbed permanently.
    pub fn of_the_last(looks: usize) -> Self {
        Baseline { memory: Some(looks), ..Baseline::default() }
    }

    /// Adds a result of [`arithmetic_ns`] for the same CPUs as before; returns the indices of the CPUs that took
    /// `limit` times as long as their best time.
    pub fn disturbed(&mut self, now_ns: &[f64], limit: f64) -> Vec<usize> {
        if self.memory.is_some_and(|memory| self.looks >= memory) {
            self.looks = 0;
            self.least_before_ns = std::mem::take(&mut self.least_ns);
        }
        self.looks += 1;
        let best = |least: &[f64], place: usize| least.get(place).copied().unwrap_or(f64::INFINITY);
        self.least_ns =
            now_ns.iter().enumerate().map(|(place, now)| now.min(best(&self.least_ns, place))).collect();
        let is_disturbed = |place: &usize| {
            let least = best(&self.least_ns, *place).min(best(&self.least_before_ns, *place));
            now_ns[*place] > limit * least
        };
        (0..now_ns.len()).filter(is_disturbed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_measured_and_others_are_an_error() {
        let cpus = cpus::usable().unwrap();
        for cpus in [&cpus[..1], &cpus[..]] {
            let times = arithmetic_ns(cpus).unwrap();
            assert!(times.len() == cpus.len() && times.iter().all(|ns| *ns > 0.0), "{times:?}");
        }
        assert!(arithmetic_ns(&[cpus[0], 1 << 20]).is_err());
        assert_eq!(arithmetic_ns(&[]).unwrap(), [0.0; 0]);
    }

    #[test]
    fn a_core_is_held_against_its_own_best() {
        let mut baseline = Baseline::default();
        let mut disturbed = |now_ns: [f64; 2]| baseline.disturbed(&now_ns, DISTURBED);
        assert_eq!(disturbed([5000.0, 9000.0]), [0; 0], "nothing else is known");
        assert_eq!(disturbed([5200.0, 5000.0]), [0; 0]);
        assert_eq!(disturbed([5200.0, 5800.0]), [1]);
        assert_eq!(disturbed([5800.0, 9000.0]), [0, 1]);
        assert_eq!(disturbed([5300.0, 5300.0]), [0; 0]);
    }

    #[test]
    fn what_was_best_is_forgotten_in_time_and_not_before() {
        let mut baseline = Baseline::of_the_last(10);
        baseline.disturbed(&[100.0], DISTURBED);
        let disturbed: Vec<bool> =
            (0..30).map(|_| !baseline.disturbed(&[120.0], DISTURBED).is_empty()).collect();
        let last = disturbed.iter().rposition(|disturbed| *disturbed).unwrap();
        assert!(disturbed[..=last].iter().all(|disturbed| *disturbed), "{disturbed:?}");
        assert!((10..20).contains(&last), "{last}");
        let mut never = Baseline::default();
        never.disturbed(&[100.0], DISTURBED);
        assert!((0..1000).all(|_| never.disturbed(&[120.0], DISTURBED) == [0]));
    }
}
