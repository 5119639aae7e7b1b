//! Maximum throughput without a loss condition: what comes through at the highest load offered, however much
//! is lost. RFC 2285 section 3.6.2 calls it the forwarding rate at maximum offered load. It is no zero-loss
//! throughput and is never printed as one; the two belong side by side.

use std::num::NonZeroU32;
use std::time::Duration;

use measure::statistics;
use serde::{Deserialize, Serialize};

use super::drive::{Driven, Search};
use super::repeats::Repeats;
use super::{Cut, Load, Record, TrialInput, TrialLength, TrialResult, nanoseconds};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The highest load that the generator keeps.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// How long each trial is.
    #[serde(rename = "trial_ns", with = "nanoseconds")]
    pub trial: Duration,
    /// How many trials.
    pub repeats: NonZeroU32,
}

/// What came through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maximum {
    /// What was measured.
    pub plan: Plan,
    /// Whether the trials had 60 s.
    pub length: TrialLength,
    /// The median over the valid trials of the frames per second that came through; None without any.
    pub received_fps: Option<f64>,
    /// Every trial.
    pub trials: Vec<Record>,
    /// What cut it short; fewer repeats than planned then.
    pub cut: Option<Cut>,
}

/// Offers the highest load and reports what came through.
impl Search for Plan {
    type Found = Maximum;
    type Strategy = Repeats<TrialResult>;

    fn strategy(&self) -> Repeats<TrialResult> {
        Repeats::new(TrialInput { load: self.load, duration: self.trial }, self.repeats)
    }

    fn found(self, _: Repeats<TrialResult>, driven: Driven<TrialInput, TrialResult>) -> Maximum {
        let valid = driven.trials.iter().filter_map(|trial| trial.measured.valid());
        let rates: Vec<f64> = valid.map(TrialResult::received_fps).collect();
        let received_fps = statistics::median(&rates);
        let length = TrialLength::of(self.trial);
        Maximum { plan: self, length, received_fps, trials: driven.trials, cut: driven.cut }
    }
}
