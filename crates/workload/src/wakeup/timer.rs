//! The periodic timer and its accounting.

use std::time::Duration;

use measure::statistics::median;
use measure::{Failure, Histogram, Noise, Outcome};
use rustix::io::{self, Errno};
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};

use crate::clock::now_ns;

/// Batches whose medians are the samples, and the most latencies that are kept for them.
const BATCHES: usize = 20;
const MOST_KEPT: usize = 1 << 20;

/// One run of the timer. All memory is allocated before the run starts.
pub(super) struct Run {
    period_ns: u64,
    length_ns: u64,
    histogram: Histogram,
    missed: u64,
    kept_ns: Vec<u32>,
    /// One latency out of this number is kept.
    keep_each: u64,
    elapsed_ns: u64,
}

impl Run {
    pub(super) fn new(period: Duration, length: Duration) -> Self {
        let (period_ns, length_ns) = (period.as_nanos() as u64, length.as_nanos() as u64);
        let events = length_ns / period_ns + 1;
        Run {
            period_ns,
            length_ns,
            histogram: Histogram::new(),
            missed: 0,
            kept_ns: Vec::with_capacity((events as usize).min(MOST_KEPT)),
            keep_each: events.div_ceil(MOST_KEPT as u64),
            elapsed_ns: 0,
        }
    }

    /// Sleeps until absolute instants, one in each period, and measures the time from each instant to the return, so
    /// that a late wake-up does not hide the next ones (coordinated omission).
    pub(super) fn go(&mut self) -> io::Result<()> {
        let start_ns = now_ns();
        let mut due_ns = start_ns + self.period_ns;
        let end_ns = start_ns + self.length_ns.max(self.period_ns);
        while due_ns <= end_ns {
            sleep_until(due_ns)?;
            let woken_ns = now_ns();
            self.count(woken_ns.saturating_sub(due_ns));
            let (next_ns, missed) = next_due(due_ns, woken_ns, self.period_ns);
            self.missed += missed;
            due_ns = next_ns;
        }
        self.elapsed_ns = now_ns() - start_ns;
        Ok(())
    }

    fn count(&mut self, latency_ns: u64) {
        if self.histogram.count().is_multiple_of(self.keep_each)
            && self.kept_ns.len() < self.kept_ns.capacity()
        {
            self.kept_ns.push(latency_ns.min(u64::from(u32::MAX)) as u32);
        }
        self.histogram.record_ns(latency_ns);
    }

    pub(super) fn into_outcome(self, remarks: Vec<String>, noise: Noise) -> Result<Outcome, Failure> {
        let kept: Vec<f64> = self.kept_ns.iter().map(|ns| f64::from(*ns)).collect();
        let value = median(&kept).ok_or_else(|| {
            Failure::new("a wake-up trial", "no period fits into it", "give a longer trial")
        })?;
        let samples = kept.chunks(kept.len().div_ceil(BATCHES)).filter_map(median).collect();
        Ok(Outcome {
            value,
            samples,
            histogram: Some(self.histogram),
            missed: self.missed,
            elapsed_ns: self.elapsed_ns,
            remarks,
            noise,
        })
    }
}

/// The next instant that lies ahead, and how many went by: those were due while this one was late.
fn next_due(due_ns: u64, woken_ns: u64, period_ns: u64) -> (u64, u64) {
    let next_ns = due_ns + period_ns;
    if next_ns > woken_ns {
        return (next_ns, 0);
    }
    let missed = (woken_ns - next_ns) / period_ns + 1;
    (next_ns + missed * period_ns, missed)
}

fn sleep_until(instant_ns: u64) -> io::Result<()> {
    let (tv_sec, tv_nsec) = ((instant_ns / 1_000_000_000) as i64, (instant_ns % 1_000_000_000) as i64);
    let instant = Timespec { tv_sec, tv_nsec };
    loop {
        match clock_nanosleep_absolute(ClockId::Monotonic, &instant) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_late_wakeup_misses_the_instants_that_went_by() {
        // Due at 1000, period 100: on time, late within the period, on the next instant, beyond it.
        assert_eq!(next_due(1000, 1000, 100), (1100, 0));
        assert_eq!(next_due(1000, 1099, 100), (1100, 0));
        assert_eq!(next_due(1000, 1100, 100), (1200, 1));
        assert_eq!(next_due(1000, 1101, 100), (1200, 1));
        assert_eq!(next_due(1000, 1350, 100), (1400, 3));
        // Early, as a clock may look that was read on another CPU.
        assert_eq!(next_due(1000, 990, 100), (1100, 0));
    }

    proptest! {
        #[test]
        fn no_instant_is_lost_and_the_next_lies_ahead(due in 0u64..1 << 40, late in 0u64..1 << 30, period in 1u64..1 << 24) {
            let (next, missed) = next_due(due, due + late, period);
            prop_assert_eq!(next, due + (missed + 1) * period);
            prop_assert!(next > due + late && next <= due + late + period);
        }
    }

    #[test]
    fn a_run_counts_every_period_once() {
        let mut run = Run::new(Duration::from_micros(500), Duration::from_millis(20));
        run.go().unwrap();
        let outcome = run.into_outcome(Vec::new(), Noise::default()).unwrap();
        let histogram = outcome.histogram.as_ref().unwrap();
        // Each of the 40 instants was either met or missed; being late at the end misses some beyond it.
        let accounted = histogram.count() + outcome.missed;
        assert!(accounted == 40 || accounted > 40 && outcome.missed > 0, "{accounted} of 40");
        assert!(outcome.value >= histogram.min_ns() as f64 && outcome.value <= histogram.max_ns() as f64);
        assert!(outcome.samples.len() <= BATCHES && !outcome.samples.is_empty());
    }
}
