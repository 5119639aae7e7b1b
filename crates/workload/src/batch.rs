//! Measures a trial as a series of timed batches.
//!
//! The clock is read twice in each batch, and a batch takes a twentieth of the budget: even if a guest's clock takes
//! microseconds for each call, that is well below one per cent. The number of units in a batch is found by doubling
//! and kept for later trials; the work of a unit never changes.

use std::time::Duration;

use measure::{Failure, Noise, Outcome};

use crate::clock::now_ns;

/// Batches that a trial is aimed at, and the least and the most it may have.
const AIM: u64 = 20;
const LEAST: usize = 3;
/// The most are well above the aim: a pace found on a cold CPU may be several times too slow.
const MOST: usize = 100;

/// The measured duration of a unit of work. The agent keeps this value between trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace {
    ns_per_unit: Option<f64>,
}

/// Converts units and nanoseconds to the metric's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    per_unit: f64,
    rate: bool,
}

impl Scale {
    /// Nanoseconds per operation; one unit of work has `per_unit` operations.
    pub(crate) fn nanos(per_unit: f64) -> Self {
        Scale { per_unit, rate: false }
    }

    /// Operations or bytes a second; one unit of work has `per_unit` of them.
    pub(crate) fn per_second(per_unit: f64) -> Self {
        Scale { per_unit, rate: true }
    }

    fn value(self, units: u64, elapsed_ns: u64) -> f64 {
        let (amount, elapsed_ns) = (units as f64 * self.per_unit, elapsed_ns.max(1) as f64);
        if self.rate { amount * 1e9 / elapsed_ns } else { elapsed_ns / amount }
    }
}

/// The result of a workload, before the noise around it is added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) value: f64,
    pub(crate) samples: Vec<f64>,
    pub(crate) elapsed_ns: u64,
    pub(crate) remarks: Vec<String>,
}

impl Measured {
    /// Adds the noise around the measurement.
    pub(crate) fn into_outcome(self, noise: Noise) -> Outcome {
        let Measured { value, samples, elapsed_ns, remarks } = self;
        Outcome { value, samples, histogram: None, missed: 0, elapsed_ns, remarks, noise }
    }
}

/// The time that the work took, in ns.
pub(crate) fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<u64, Failure> {
    let start_ns = now_ns();
    work()?;
    Ok(now_ns() - start_ns)
}

/// Runs batches for about the budget. `batch` executes the given number of units and returns the time that they took,
/// in ns.
pub(crate) fn measure(
    budget: Duration,
    scale: Scale,
    pace: &mut Pace,
    mut batch: impl FnMut(u64) -> Result<u64, Failure>,
) -> Result<Measured, Failure> {
    let units = calibrate(budget, pace, &mut batch)?;
    let budget_ns = budget.as_nanos() as u64;
    let (mut samples, mut elapsed_ns, mut batch_ns) = (Vec::with_capacity(MOST), 0, 0);
    // Within half a batch of the budget, another one would lead away from it.
    while samples.len() < LEAST || samples.len() < MOST && elapsed_ns + batch_ns / 2 < budget_ns {
        batch_ns = batch(units)?;
        samples.push(scale.value(units, batch_ns));
        elapsed_ns += batch_ns;
    }
    let total_units = units * samples.len() as u64;
    pace.ns_per_unit = Some(elapsed_ns.max(1) as f64 / total_units as f64);
    Ok(Measured { value: scale.value(total_units, elapsed_ns), samples, elapsed_ns, ..Measured::default() })
}

/// The number of units that fill a batch. Runs at least one batch, so that the following batches find warm caches.
pub(crate) fn calibrate(
    budget: Duration,
    pace: &mut Pace,
    batch: &mut impl FnMut(u64) -> Result<u64, Failure>,
) -> Result<u64, Failure> {
    let aim_ns = (budget.as_nanos() as u64 / AIM).max(1) as f64;
    let units_in = |ns_per_unit: f64| ((aim_ns / ns_per_unit).round() as u64).max(1);
    if let Some(ns_per_unit) = pace.ns_per_unit {
        let units = units_in(ns_per_unit);
        batch(units)?;
        return Ok(units);
    }
    // The very first unit pays for cold caches and helpers that only start: it tells nothing.
    batch(1)?;
    let mut units = 1;
    loop {
        let batch_ns = batch(units)?.max(1) as f64;
        pace.ns_per_unit = Some(batch_ns / units as f64);
        if batch_ns >= aim_ns / 3.0 {
            return Ok(units_in(batch_ns / units as f64));
        }
        units *= ((aim_ns / batch_ns) as u64).clamp(2, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit of work that takes the same time always, on a clock of its own.
    fn steady(unit_ns: u64, spent_ns: &mut u64) -> impl FnMut(u64) -> Result<u64, Failure> {
        move |units| {
            *spent_ns += units * unit_ns;
            Ok(units * unit_ns)
        }
    }

    #[test]
    fn any_pace_gives_the_true_figure_near_the_budget() {
        let budget = Duration::from_millis(30);
        for unit_ns in [1, 70, 3_000, 200_000, 1_000_000, 9_000_000] {
            let (mut pace, mut spent_ns) = (Pace::default(), 0);
            for _ in 0..3 {
                spent_ns = 0;
                let measured =
                    measure(budget, Scale::nanos(2.0), &mut pace, steady(unit_ns, &mut spent_ns)).unwrap();
                assert_eq!(measured.value, unit_ns as f64 / 2.0);
                assert!((LEAST..=MOST).contains(&measured.samples.len()), "{}", measured.samples.len());
            }
            assert!((25_000_000..=45_000_000).contains(&spent_ns), "{unit_ns} ns a unit: {spent_ns} ns");
        }
    }

    #[test]
    fn rates_are_totals_over_total_time() {
        let mut batches = [10u64, 10, 40].into_iter().cycle();
        let mut pace = Pace { ns_per_unit: Some(1.0) };
        let measured = measure(Duration::from_nanos(20), Scale::per_second(1.0), &mut pace, |_| {
            Ok(batches.next().unwrap())
        })
        .unwrap();
        let total = measured.samples.len() as f64 * 1e9 / measured.elapsed_ns as f64;
        assert_eq!(measured.value, total);
    }

    #[test]
    fn a_failing_batch_ends_the_trial() {
        let failure = Failure::new("a", "b", "c");
        let result = measure(Duration::from_millis(1), Scale::nanos(1.0), &mut Pace::default(), |_| {
            Err(failure.clone())
        });
        assert_eq!(result.unwrap_err(), failure);
    }
}
