//! Maximum throughput without a condition on loss: the received rate at the highest offered load. RFC 2285 section
//! 3.6.2 calls it the forwarding rate at maximum offered load. It is not a zero-loss throughput and is never printed
//! as one; both are shown side by side.

use std::num::NonZeroU32;
use std::time::Duration;

use measure::statistics;
use serde::{Deserialize, Serialize};

use super::drive::{Driven, Search};
use super::repeats::Repeats;
use super::{Cut, Load, Record, TrialInput, TrialLength, TrialResult, nanoseconds};

/// The plan of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The highest load that the generator sustains.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// The length of each trial.
    #[serde(rename = "trial_ns", with = "nanoseconds")]
    pub trial: Duration,
    /// The number of trials.
    pub repeats: NonZeroU32,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maximum {
    /// The plan of the measurement.
    pub plan: Plan,
    /// Whether the trials took 60 s.
    pub length: TrialLength,
    /// The median of the received frames per second over the valid trials; `None` if there are none.
    pub received_fps: Option<f64>,
    /// Every trial.
    pub trials: Vec<Record>,
    /// Why there are fewer trials than planned, if so.
    pub cut: Option<Cut>,
}

/// Offers the highest load and reports the received rate.
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
