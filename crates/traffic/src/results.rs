//! The results file of `tautline rfc2544`: everything that is printed, and every trial.
//!
//! [`Run`] is the whole file. Units are in the names: `_ns` nanoseconds, `_fps` frames per second, `_s` seconds.
//! docs/results-schema.md describes the file for other programs that read it. [`Recorder`](crate::recorder::Recorder)
//! writes the file anew after each trial.
use std::path::Path;

use measure::Histogram;
use measure::LoadError;
use serde::{Deserialize, Serialize};

use crate::search::rfc2544::{BackToBack, BurstTrials, FrameLoss};
use crate::search::{Finding, Fraction, Load, Record, maximum, mlr};

/// Name and version of the results file. Within a version, properties may be added. None is removed, renamed or given
/// another meaning.
pub const SCHEMA: &str = "tautline-rfc2544/3";

/// One run: the whole file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program that measured, as `tautline --version` prints it.
    pub tautline: String,
    /// When the run began, UTC, RFC 3339.
    pub started: String,
    /// Seconds from the beginning until the file was last written.
    pub elapsed_s: f64,
    /// Whether the run was completed. If not, the file has what was found until then.
    pub complete: bool,
    /// The machine.
    pub host: measure::host_facts::HostFacts,
    /// The command that repeats the run, word by word.
    pub command: Vec<String>,
    /// The descriptions of the ports once they were up, `--from` first.
    pub ports: Vec<String>,
    /// Labels that must be shown with every figure, such as "software: TAP". Figures with different labels are not
    /// comparable.
    pub labels: Vec<String>,
    /// Whether trials were shorter than the 60 s of RFC 2544 section 24.
    pub quick: bool,
    /// The length of each trial of [`SizeResult::maximum`], nanoseconds.
    pub maximum_trial_ns: u64,
    /// The length of each trial of [`SizeResult::latency`], nanoseconds.
    pub latency_trial_ns: u64,
    /// The results by size or mix, in the order in which they were measured.
    pub sizes: Vec<SizeResult>,
    /// The size or mix that was being measured when the file was last written; `None` if none was.
    pub unfinished: Option<Unfinished>,
}

/// The results so far of a size or mix, for a run that is interrupted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// The frame size, as in [`SizeResult`].
    pub frame_bytes_with_fcs: String,
    /// Trials for the maximum so far.
    pub maximum_trials: Vec<MaximumTrial>,
    /// Trials of the search so far, in the order in which they were made.
    pub search_trials: Vec<Record>,
    /// The highest passing load so far, frames per second. With several goals, for the first goal.
    pub lower_fps: Option<Load>,
    /// The lowest failing load so far, frames per second. If there are several goals, for the first goal.
    pub upper_fps: Option<Load>,
    /// Latencies so far, lowest load first.
    pub latency: Vec<Latency>,
    /// Trials of the walk over loads (RFC 2544 section 26.3) so far.
    pub frame_loss_trials: Vec<Record>,
    /// Trials for the longest burst so far, over all searches for it.
    pub burst_trials: BurstTrials,
}

/// The results for one frame length or mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeResult {
    /// The size or mix, with bytes as in RFC 2544: 64 are 60 bytes in a buffer.
    pub frame_bytes_with_fcs: String,
    /// The mean frame size (layer 2), bytes.
    pub mean_frame_bytes_with_fcs: f64,
    /// The mean frame size with preamble and gap, which add 20 bytes (layer 1), bytes.
    pub mean_frame_bytes_at_layer_1: f64,
    /// The rate of the generator by itself, frames per second.
    pub loopback_fps: f64,
    /// The throughput without a condition on loss.
    pub maximum: Maximum,
    /// The highest offered rate of the searches, frames per second: slightly more than the device took, or the user's
    /// limit, or the most that the generator sustained.
    pub most_fps: u64,
    /// Whether the generator could not sustain the rate that should be offered.
    pub generator_kept_less: bool,
    /// The result of the search.
    pub search: SearchResult,
    /// Latencies for an idle path and, if a throughput was found, at fractions of it; lowest load first.
    pub latency: Vec<Latency>,
    /// The loss at each load, RFC 2544 section 26.3, if it was asked for.
    pub frame_loss: Option<FrameLoss>,
    /// The longest burst without loss, RFC 9004, if it was asked for.
    pub back_to_back: Option<Bursts>,
}

/// Maximum throughput: as much as the device takes, at any loss. The trial with the median received rate, among the
/// undisturbed ones if there are any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maximum {
    /// Frames per second received.
    pub received_fps: f64,
    /// Frames per second that the device took.
    pub taken_fps: f64,
    /// Fraction of the generator's rounds in which it had nothing to do. Above 0.1 the device is the bottleneck,
    /// below it the generator is.
    pub generator_idle: f64,
    /// Whether the generator was preempted in every trial, so that the figure may be too low.
    pub disturbed: bool,
    /// Every trial.
    pub trials: Vec<MaximumTrial>,
}

/// One trial for the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaximumTrial {
    /// Frames per second received.
    pub received_fps: f64,
    /// Frames per second that the device took.
    pub taken_fps: f64,
    /// Fraction (0 to 1) of the generator's rounds in which it had nothing to do.
    pub generator_idle: f64,
    /// Whether the generator was preempted.
    pub disturbed: bool,
}

/// The result of the back-to-back measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bursts {
    /// The measurement could not be made.
    LeftOut {
        /// In words.
        why: String,
    },
    /// The trial was made, or is not applicable.
    Made {
        /// The result, with every trial.
        outcome: BackToBack,
    },
}

impl Maximum {
    /// The result of these trials; `None` if there are none.
    pub fn of(trials: Vec<MaximumTrial>) -> Option<Self> {
        let disturbed = trials.iter().all(|trial| trial.disturbed);
        let mut ones: Vec<&MaximumTrial> =
            trials.iter().filter(|trial| trial.disturbed == disturbed).collect();
        ones.sort_by(|a, b| a.received_fps.total_cmp(&b.received_fps));
        let MaximumTrial { received_fps, taken_fps, generator_idle, .. } = **ones.get(ones.len() / 2)?;
        Some(Maximum { received_fps, taken_fps, generator_idle, disturbed, trials })
    }

    /// Which side limited the rate.
    pub fn bottleneck(&self) -> &'static str {
        if self.generator_idle > 0.1 { "device" } else { "generator" }
    }
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "search", rename_all = "snake_case")]
pub enum SearchResult {
    /// RFC 2544 section 26.1.
    Rfc2544 {
        /// Throughput (`lower`) and lowest failing rate (`upper`), frames per second.
        finding: Finding<Load>,
        /// Every trial.
        trials: Vec<Record>,
    },
    /// ETSI NFV-TST 009 section 12.3.3.
    Tst009 {
        /// Throughput (`lower`) and lowest failing rate (`upper`), frames per second.
        finding: Finding<Load>,
        /// Every trial.
        trials: Vec<Record>,
    },
    /// RFC 9971.
    Mlr {
        /// The results by goal, and every trial.
        outcome: mlr::Outcome,
    },
    /// No search: only the maximum.
    Maximum {
        /// Repeated trials at the highest load.
        outcome: maximum::Maximum,
    },
}

/// Latency at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Percent of the throughput; 0 for an idle path.
    pub percent_of_throughput: u8,
    /// Frames per second offered.
    pub load_fps: u64,
    /// The time from when a frame was due to when it was received, including the generator's own part, nanoseconds.
    /// `None` if the generator lagged behind its schedule in every try, so that half or more of the latency was its
    /// own.
    pub histogram: Option<Histogram>,
    /// The generator's own part: the time from when a frame was due to when it was sent, nanoseconds.
    pub generator: Histogram,
    /// Frames that were lost.
    pub lost: u64,
    /// Frames for which the generator was too late. They have no latency.
    pub unsent: u64,
    /// Invalid trials, which were discarded and repeated.
    pub invalid: u32,
    /// Whether this trial is invalid too: it was the last try.
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

    /// The throughput: the highest load without loss, as defined by RFC 2544. `None` if the search ended undecided,
    /// or searched for something else.
    pub fn throughput(&self) -> Option<Load> {
        match self {
            SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => {
                finding.decided_lower().copied()
            }
            SearchResult::Mlr { outcome } => {
                let lossless = outcome.results.iter().find(|result| result.goal.loss() == Fraction::ZERO);
                lossless.and_then(|result| Some(result.finding.decided_lower()?.load))
            }
            SearchResult::Maximum { .. } => None,
        }
    }

    /// The highest passing rate, frames per second. With several goals, for the first goal.
    pub fn rate_fps(&self) -> Option<f64> {
        let of =
            |finding: &Finding<Load>| finding.decided_lower().map(|load| load.frames_per_second() as f64);
        match self {
            SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => of(finding),
            SearchResult::Mlr { outcome } => outcome.results.first().and_then(mlr_rate),
            SearchResult::Maximum { outcome } => outcome.received_fps,
        }
    }

    /// The number of trials, and how many of them were invalid.
    pub fn trials(&self) -> (usize, usize) {
        let trials = self.records();
        (trials.len(), crate::search::invalid_trials(trials))
    }
}

impl Run {
    /// Reads a results file.
    ///
    /// # Errors
    /// The file cannot be read, is no JSON, is of another schema, or has other fields.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        measure::load::load(path, SCHEMA, "`tautline rfc2544`")
    }
}

fn mlr_rate(goal: &mlr::GoalResult) -> Option<f64> {
    goal.finding.decided_lower().map(|lower| lower.load.frames_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file that others' readers are tested with.
    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rfc2544.json");

    #[test]
    fn the_example_reads_back_as_it_was() {
        let run = Run::load(Path::new(EXAMPLE)).unwrap();
        assert!(!run.complete && !run.sizes.is_empty() && run.unfinished.is_some());
        let text = serde_json::to_value(&run).unwrap();
        let file: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(EXAMPLE).unwrap()).unwrap();
        assert_eq!(text, file);
    }

    #[test]
    fn files_of_others_are_refused_by_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        assert!(matches!(Run::load(&file), Err(LoadError::Read { .. })));
        for (text, words) in [
            ("{", "not a results file"),
            (r#"{"schema": "tautline-rfc2544/2"}"#, "tautline-rfc2544/2"),
            (r#"{"schema": "tautline-rfc2544/3"}"#, "missing field"),
            ("[]", "none"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Run::load(&file).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

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
