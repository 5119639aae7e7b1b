//! What a run of trials found: everything that is printed, and every trial behind it.
use measure::Histogram;
use serde::Serialize;

use crate::search::{Finding, Load, Record, maximum, mlr};

/// Name and version of the results file.
pub const SCHEMA: &str = "tautline-rfc2544/1";

/// One run.
#[derive(Debug, Serialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// When it began, RFC 3339.
    pub started: String,
    /// The machine.
    pub host: measure::host_facts::HostFacts,
    /// What the user asked for, as one would write it.
    pub command: String,
    /// What the ports said of themselves once they were up.
    pub ports: Vec<String>,
    /// Whether trials were shorter than the standards ask for.
    pub quick: bool,
    /// By size or mix.
    pub sizes: Vec<SizeResult>,
}

/// What was found for one frame length or mix.
#[derive(Debug, Serialize)]
pub struct SizeResult {
    /// The mix, spelled out; lengths as they lie in the buffer, without frame check sequence.
    pub frames: String,
    /// Mean length in bytes.
    pub mean_bytes: f64,
    /// What the generator moves by itself.
    pub loopback_fps: f64,
    /// What came through with no condition on loss.
    pub maximum: Maximum,
    /// The search's answer.
    pub search: SearchResult,
    /// At shares of the rate that was found, lowest first.
    pub latency: Vec<Latency>,
}

/// Maximum throughput: as much as the device takes, whatever it loses.
#[derive(Debug, Serialize)]
pub struct Maximum {
    /// Frames per second received.
    pub received_fps: f64,
    /// Frames per second that the device took.
    pub taken_fps: f64,
    /// Share of the generator's rounds in which it had nothing to do: above a tenth the device is the
    /// bottleneck, below it the generator is.
    pub generator_idle: f64,
}

impl Maximum {
    /// Which side could not go faster.
    pub fn bottleneck(&self) -> &'static str {
        if self.generator_idle > 0.1 { "device" } else { "generator" }
    }
}

/// The answer of the search that was asked for.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
pub struct Latency {
    /// Percent of the rate that was found; 0 for an idle path.
    pub percent: u8,
    /// Frames per second offered.
    pub load_fps: u64,
    /// From when a frame was due to when it was seen, the generator's own share included.
    pub histogram: Histogram,
    /// Frames that did not arrive.
    pub lost: u64,
    /// Trials that said nothing and were repeated.
    pub invalid: u32,
}

impl SearchResult {
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
        let trials = match self {
            SearchResult::Rfc2544 { trials, .. } | SearchResult::Tst009 { trials, .. } => trials,
            SearchResult::Mlr { outcome } => &outcome.trials,
            SearchResult::Maximum { outcome } => &outcome.trials,
        };
        (trials.len(), crate::search::invalid_trials(trials))
    }
}

fn mlr_rate(goal: &mlr::GoalResult) -> Option<f64> {
    goal.finding.decided_lower().map(|lower| lower.load.frames_per_second() as f64)
}
