//! Trials by how far the cores were from each other. A host that moves virtual CPUs puts them now beside each other
//! and now on two dies: two machines in one run, of which no median and no ratio says anything together.
use anyhow::Context;
use measure::statistics::median;

use crate::cpus::Pinned;
use crate::records::{Results, Trial};

/// What a line costs on far cores over what it costs on near ones, at the least.
const FAR_OVER_NEAR: f64 = 2.0;
/// Fewer than one of so many are no distance of their own.
const FEW: usize = 20;

/// What a line costs now between the driver's CPU and the switch's, which have nothing else to do.
pub fn line_ns((driver_cpu, switch_cpu): (usize, usize)) -> anyhow::Result<f64> {
    // It stays on the driver's CPU otherwise.
    let _pinned = Pinned::to(driver_cpu)?;
    traffic::distance::line_ns(driver_cpu, switch_cpu).context("measuring the cores' distance")
}

/// How far the cores were from each other, beside the rest of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// All trials were alike.
    Same,
    Near,
    Far,
}

impl Distance {
    /// Nothing where there is nothing to tell apart.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Same => "",
            Distance::Near => "near",
            Distance::Far => "far",
        }
    }
}

/// The distances that there were in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distances {
    One,
    /// A line took less than this on near cores, more on far ones.
    Two {
        limit_ns: f64,
    },
}

impl Distances {
    /// Two if a line took twice as long in some trials as in the others; a few trials in a hundred are none.
    pub fn of(results: &Results) -> Self {
        let mut all: Vec<f64> = results.trials.iter().flat_map(|trial| trial.line_ns).collect();
        all.sort_by(f64::total_cmp);
        let Some(nears) = split(&all) else { return Distances::One };
        let (near, far) = all.split_at(nears);
        let few = near.len().min(far.len()) * FEW < all.len();
        match median(near).zip(median(far)) {
            Some((near_ns, far_ns)) if !few && far_ns > FAR_OVER_NEAR * near_ns => {
                Distances::Two { limit_ns: (near[nears - 1] + far[0]) / 2.0 }
            }
            _ => Distances::One,
        }
    }

    pub fn all(self) -> &'static [Distance] {
        match self {
            Distances::One => &[Distance::Same],
            Distances::Two { .. } => &[Distance::Near, Distance::Far],
        }
    }

    /// The distance in a trial; none if there are two and it changed.
    pub fn in_trial(self, trial: &Trial) -> Option<Distance> {
        let Distances::Two { limit_ns } = self else { return Some(Distance::Same) };
        match trial.line_ns.map(|ns| ns > limit_ns) {
            [false, false] => Some(Distance::Near),
            [true, true] => Some(Distance::Far),
            _ => None,
        }
    }

    /// Median of what a line took at a distance, and in how many trials that count.
    pub fn line_ns(self, results: &Results, distance: Distance) -> Option<(f64, usize)> {
        let of = |trial: &&Trial| trial.verdict.counts() && self.in_trial(trial) == Some(distance);
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
    fn cores_that_stay_where_they_are_have_one_distance() {
        // Noise, and one trial in thirty elsewhere.
        let mut trials = vec![[28.0, 31.0]; 30];
        trials[3] = [45.0, 26.0];
        trials[7] = [130.0, 130.0];
        let results = results(&trials);
        let distances = Distances::of(&results);
        assert_eq!(distances, Distances::One);
        assert_eq!(distances.in_trial(&results.trials[7]), Some(Distance::Same));
        assert_eq!(distances.line_ns(&results, Distance::Same), Some((31.0, 30)));
    }

    #[test]
    fn trials_are_near_or_far_or_neither() {
        let results = results(&[[28.0, 30.0], [131.0, 128.0], [27.0, 131.0], [133.0, 29.0], [7.0, 8.0]]);
        let distances = Distances::of(&results);
        let found: Vec<_> = results.trials.iter().map(|trial| distances.in_trial(trial)).collect();
        let (near, far) = (Some(Distance::Near), Some(Distance::Far));
        // On two threads of one core a line costs next to nothing: that is near as well.
        assert_eq!(found, [near, far, None, None, near]);
        assert_eq!(distances.line_ns(&results, Distance::Far), Some((129.5, 1)));
        assert!(matches!(distances, Distances::Two { limit_ns } if limit_ns > 31.0 && limit_ns < 128.0));
        // Nothing was measured: all is alike.
        assert_eq!(Distances::of(&results_for_tests()), Distances::One);
    }

    #[test]
    fn a_pause_of_the_machine_hides_no_distance() {
        let mut trials = vec![[28.0, 28.0]; 60];
        trials.extend([[131.0, 131.0]; 40]);
        trials.push([5000.0, 28.0]);
        let distances = Distances::of(&results(&trials));
        assert!(matches!(distances, Distances::Two { limit_ns } if limit_ns > 28.0 && limit_ns < 131.0));
    }
}
