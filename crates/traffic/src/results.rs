//! What a run of trials found: everything that is printed, and every trial behind it.
use measure::Histogram;
use serde::{Deserialize, Serialize};

use crate::search::rfc2544::{BackToBack, FrameLoss};
use crate::search::{Finding, Load, Record, Share, maximum, mlr};

/// Name and version of the results file.
pub const SCHEMA: &str = "tautline-rfc2544/2";

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// The machine.
    pub host: measure::host_facts::HostFacts,
    /// What the user asked for, as one would write it.
    pub command: String,
    /// What the ports said of themselves once they were up.
    pub ports: Vec<String>,
    /// What must stand beside every figure, such as "software: TAP": not comparable with what lacks it.
    pub labels: Vec<String>,
    /// Whether trials were shorter than the standards ask for.
    pub quick: bool,
    /// The length of the trials of [`SizeResult::maximum`] and [`SizeResult::latency`], nanoseconds.
    pub maximum_trial_ns: u64,
    /// The same.
    pub latency_trial_ns: u64,
    /// By size or mix.
    pub sizes: Vec<SizeResult>,
}

/// What was found for one frame length or mix.
#[derive(Debug, Serialize, Deserialize)]
pub struct SizeResult {
    /// The size or mix, spelled out, as RFC 2544 counts it: 64 are 60 bytes in a buffer.
    pub frame_bytes_with_fcs: String,
    /// Mean of it (layer 2).
    pub mean_frame_bytes_with_fcs: f64,
    /// The same with preamble and gap, 20 bytes more: what a frame takes of a link (layer 1).
    pub mean_frame_bytes_at_layer_1: f64,
    /// What the generator moves by itself.
    pub loopback_fps: f64,
    /// What came through with no condition on loss.
    pub maximum: Maximum,
    /// The most that was offered to find something: a little more than the device took, or what the user
    /// said, or what the generator kept.
    pub most_fps: u64,
    /// The generator kept less than was to be offered.
    pub generator_kept_less: bool,
    /// The search's answer.
    pub search: SearchResult,
    /// Idle, and at shares of the throughput where one was found; lowest first.
    pub latency: Vec<Latency>,
    /// The loss at each load, RFC 2544 section 26.3; where it was asked for.
    pub frame_loss: Option<FrameLoss>,
    /// The longest burst without loss, RFC 9004; where it was asked for.
    pub back_to_back: Option<Bursts>,
}

/// Maximum throughput: as much as the device takes, whatever it loses. The trial with the median of what was
/// received, of the undisturbed ones if there are any.
#[derive(Debug, Serialize, Deserialize)]
pub struct Maximum {
    /// Frames per second received.
    pub received_fps: f64,
    /// Frames per second that the device took.
    pub taken_fps: f64,
    /// Share of the generator's rounds in which it had nothing to do: above a tenth the device is the
    /// bottleneck, below it the generator is.
    pub generator_idle: f64,
    /// The generator was preempted in every trial: the figure may be too low.
    pub disturbed: bool,
    /// Every trial.
    pub trials: Vec<MaximumTrial>,
}

/// One trial for the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaximumTrial {
    /// As in [`Maximum`].
    pub received_fps: f64,
    /// As in [`Maximum`].
    pub taken_fps: f64,
    /// As in [`Maximum`].
    pub generator_idle: f64,
    /// The generator was preempted.
    pub disturbed: bool,
}

/// What became of the back-to-back measurement.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bursts {
    /// It cannot be made.
    LeftOut {
        /// In words.
        why: String,
    },
    /// It was made, or found to be not applicable.
    Made {
        /// With every trial.
        outcome: BackToBack,
    },
}

impl Maximum {
    /// Of at least one trial; None of none.
    pub fn of(trials: Vec<MaximumTrial>) -> Option<Self> {
        let disturbed = trials.iter().all(|trial| trial.disturbed);
        let mut ones: Vec<&MaximumTrial> =
            trials.iter().filter(|trial| trial.disturbed == disturbed).collect();
        ones.sort_by(|a, b| a.received_fps.total_cmp(&b.received_fps));
        let MaximumTrial { received_fps, taken_fps, generator_idle, .. } = **ones.get(ones.len() / 2)?;
        Some(Maximum { received_fps, taken_fps, generator_idle, disturbed, trials })
    }

    /// Which side could not go faster.
    pub fn bottleneck(&self) -> &'static str {
        if self.generator_idle > 0.1 { "device" } else { "generator" }
    }
}

/// The answer of the search that was asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "search", rename_all = "snake_case")]
pub enum SearchResult {
    /// RFC 2544 section 26.1.
    Rfc2544 {
        /// Bounds.
        finding: Finding<Load>,
        /// Every trial.
        trials: Vec<Record>,
    },
    /// ETSI NFV-TST 009 section 12.3.3.
    Tst009 {
        /// Bounds.
        finding: Finding<Load>,
        /// Every trial.
        trials: Vec<Record>,
    },
    /// RFC 9971.
    Mlr {
        /// By goal, and every trial.
        outcome: mlr::Outcome,
    },
    /// None: the maximum is all.
    Maximum {
        /// Repeats at the highest load.
        outcome: maximum::Maximum,
    },
}

/// Latency at one load.
#[derive(Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Percent of the throughput, the zero-loss rate that was found; 0 for an idle path.
    pub percent_of_throughput: u8,
    /// Frames per second offered.
    pub load_fps: u64,
    /// From when a frame was due to when it was seen, the generator's own share included. None where the
    /// generator lagged behind its schedule in every try: half or more of it was the generator's own.
    pub histogram: Option<Histogram>,
    /// The generator's own share: from when a frame was due to when it was sent.
    pub generator: Histogram,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Frames for which the generator itself was too late; they have no latency.
    pub unsent: u64,
    /// Trials that said nothing and were repeated.
    pub invalid: u32,
    /// This one says nothing either: it was the last try.
    pub disturbed: bool,
}

impl SearchResult {
    /// Every trial.
    pub fn records(&self) -> &[Record] {
        match self {
            SearchResult::Rfc2544 { trials, .. } | SearchResult::Tst009 { trials, .. } => trials,
            SearchResult::Mlr { outcome } => &outcome.trials,
            SearchResult::Maximum { outcome } => &outcome.trials,
        }
    }

    /// The highest load without loss that was found for sure: what RFC 2544 calls the throughput. None where
    /// no such load was searched for.
    pub fn throughput(&self) -> Option<Load> {
        match self {
            SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => {
                finding.decided_lower().copied()
            }
            SearchResult::Mlr { outcome } => {
                let lossless = outcome.results.iter().find(|result| result.goal.loss() == Share::ZERO);
                lossless.and_then(|result| Some(result.finding.decided_lower()?.load))
            }
            SearchResult::Maximum { .. } => None,
        }
    }

    /// The rate that was found for sure, frames per second: of several goals the first's.
    pub fn rate_fps(&self) -> Option<f64> {
        let of =
            |finding: &Finding<Load>| finding.decided_lower().map(|load| load.frames_per_second() as f64);
        match self {
            SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => of(finding),
            SearchResult::Mlr { outcome } => outcome.results.first().and_then(mlr_rate),
            SearchResult::Maximum { outcome } => outcome.received_fps,
        }
    }

    /// All trials, and how many of them said nothing.
    pub fn trials(&self) -> (usize, usize) {
        let trials = self.records();
        (trials.len(), crate::search::invalid_trials(trials))
    }
}

fn mlr_rate(goal: &mlr::GoalResult) -> Option<f64> {
    goal.finding.decided_lower().map(|lower| lower.load.frames_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_the_median_of_undisturbed_trials_and_says_so_where_there_are_none() {
        let trial = |received_fps, disturbed| MaximumTrial {
            received_fps,
            taken_fps: received_fps,
            generator_idle: 0.0,
            disturbed,
        };
        assert!(Maximum::of(Vec::new()).is_none());
        let some = [trial(9.0, false), trial(1.0, true), trial(5.0, false), trial(7.0, false)];
        let of = Maximum::of(some.to_vec()).unwrap();
        assert_eq!((of.received_fps, of.disturbed, of.trials.len()), (7.0, false, 4));
        let none = Maximum::of(vec![trial(1.0, true), trial(3.0, true), trial(2.0, true)]).unwrap();
        assert_eq!((none.received_fps, none.disturbed), (2.0, true));
    }
}
