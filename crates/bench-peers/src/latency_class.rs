//! Trials by what a line took from core to core. A host that moves virtual CPUs puts them now beside each other
//! and now on two dies: two machines in one run, of which no median and no ratio says anything together.
use anyhow::Context;
use measure::statistics::median;

use crate::cpus::Pinned;
use crate::records::{Results, Trial};

/// What a line takes in the upper class over what it takes in the lower, at the least.
const HIGH_OVER_LOW: f64 = 2.0;
/// Fewer than one of so many are no class of their own.
const FEW: usize = 20;

/// What a line costs now between the driver's CPU and the switch's, which have nothing else to do.
pub fn line_ns((driver_cpu, switch_cpu): (usize, usize)) -> anyhow::Result<f64> {
    // It stays on the driver's CPU otherwise.
    let _pinned = Pinned::to(driver_cpu)?;
    traffic::distance::line_ns(driver_cpu, switch_cpu).context("measuring the core-to-core latency")
}

/// The core-to-core latency, beside the rest of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LatencyClass {
    /// All trials were alike.
    Same,
    Low,
    High,
}

impl LatencyClass {
    /// Nothing where there is nothing to tell apart.
    pub fn name(self) -> &'static str {
        match self {
            LatencyClass::Same => "",
            LatencyClass::Low => "low",
            LatencyClass::High => "high",
        }
    }
}

/// The classes that there were in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Classes {
    One,
    /// A line took less than this in the lower class, more in the upper.
    Two {
        limit_ns: f64,
    },
}

impl Classes {
    /// Two if a line took twice as long in some trials as in the others; a few trials in a hundred are none.
    pub fn of(results: &Results) -> Self {
        let mut all: Vec<f64> = results.trials.iter().flat_map(|trial| trial.line_ns).collect();
        all.sort_by(f64::total_cmp);
        let Some(lows) = split(&all) else { return Classes::One };
        let (low, high) = all.split_at(lows);
        let few = low.len().min(high.len()) * FEW < all.len();
        match median(low).zip(median(high)) {
            Some((low_ns, high_ns)) if !few && high_ns > HIGH_OVER_LOW * low_ns => {
                Classes::Two { limit_ns: (low[lows - 1] + high[0]) / 2.0 }
            }
            _ => Classes::One,
        }
    }

    pub fn all(self) -> &'static [LatencyClass] {
        match self {
            Classes::One => &[LatencyClass::Same],
            Classes::Two { .. } => &[LatencyClass::Low, LatencyClass::High],
        }
    }

    /// The class of a trial; none if there are two and it changed.
    pub fn in_trial(self, trial: &Trial) -> Option<LatencyClass> {
        let Classes::Two { limit_ns } = self else { return Some(LatencyClass::Same) };
        match trial.line_ns.map(|ns| ns > limit_ns) {
            [false, false] => Some(LatencyClass::Low),
            [true, true] => Some(LatencyClass::High),
            _ => None,
        }
    }

    /// Median of what a line took in a class, and in how many trials that count.
    pub fn line_ns(self, results: &Results, class: LatencyClass) -> Option<(f64, usize)> {
        let of = |trial: &&Trial| trial.verdict.counts() && self.in_trial(trial) == Some(class);
        let all: Vec<f64> = results.trials.iter().filter(of).flat_map(|trial| trial.line_ns).collect();
        Some((median(&all)?, all.len() / 2))
    }
}

/// How many of a sorted sample are in the lower of the two classes that differ most: the largest variance of the
/// logarithms between them (Otsu, 1979).
fn split(sorted: &[f64]) -> Option<usize> {
    let logs: Vec<f64> = sorted.iter().map(|value| value.max(1.0).ln()).collect();
    let total: f64 = logs.iter().sum();
    let mut below = 0.0;
    let between = |(at, value): (usize, &f64)| {
        below += value;
        let (low, high) = ((at + 1) as f64, (logs.len() - at - 1) as f64);
        let apart = below / low - (total - below) / high;
        (at + 1, low * high * apart * apart)
    };
    let cuts = logs.iter().enumerate().take(logs.len().saturating_sub(1)).map(between);
    cuts.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(count, _)| count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Link, RingPath, System};
    use crate::records::{results_for_tests, trial_for_tests};

    fn results(line_ns: &[[f64; 2]]) -> Results {
        let link = Link::Ring(RingPath::Packed);
        let trial =
            |line_ns: &[f64; 2]| Trial { line_ns: *line_ns, ..trial_for_tests(link, System::Testpmd, 1e6) };
        Results { trials: line_ns.iter().map(trial).collect(), ..results_for_tests() }
    }

    #[test]
    fn cores_that_stay_where_they_are_are_of_one_class() {
        // Noise, and one trial in thirty elsewhere.
        let mut trials = vec![[28.0, 31.0]; 30];
        trials[3] = [45.0, 26.0];
        trials[7] = [130.0, 130.0];
        let results = results(&trials);
        let classes = Classes::of(&results);
        assert_eq!(classes, Classes::One);
        assert_eq!(classes.in_trial(&results.trials[7]), Some(LatencyClass::Same));
        assert_eq!(classes.line_ns(&results, LatencyClass::Same), Some((31.0, 30)));
    }

    #[test]
    fn trials_are_of_one_class_or_of_none() {
        let results = results(&[[28.0, 30.0], [131.0, 128.0], [27.0, 131.0], [133.0, 29.0], [7.0, 8.0]]);
        let classes = Classes::of(&results);
        let found: Vec<_> = results.trials.iter().map(|trial| classes.in_trial(trial)).collect();
        let (low, high) = (Some(LatencyClass::Low), Some(LatencyClass::High));
        // On two threads of one core a line costs next to nothing: that is the lower class as well.
        assert_eq!(found, [low, high, None, None, low]);
        assert_eq!(classes.line_ns(&results, LatencyClass::High), Some((129.5, 1)));
        assert!(matches!(classes, Classes::Two { limit_ns } if limit_ns > 31.0 && limit_ns < 128.0));
        // Nothing was measured: all is alike.
        assert_eq!(Classes::of(&results_for_tests()), Classes::One);
    }

    #[test]
    fn a_pause_of_the_machine_hides_no_class() {
        let mut trials = vec![[28.0, 28.0]; 60];
        trials.extend([[131.0, 131.0]; 40]);
        trials.push([5000.0, 28.0]);
        let classes = Classes::of(&results(&trials));
        assert!(matches!(classes, Classes::Two { limit_ns } if limit_ns > 28.0 && limit_ns < 131.0));
    }
}
