//! Binary search with loss verification (ETSI NFV-TST 009 section 12.3.3). A load at which frames were lost is tried
//! again before it counts as too high, so that a rare disturbance of a software device does not decide the result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bisection::VerifiedBisection;
use super::drive::{Driven, Search};
use super::verified::Verified;
use super::{
    Finding, Fraction, Load, Record, SearchRange, TrialInput, TrialLength, TrialResult, Verification,
    nanoseconds,
};

/// A search with loss verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The loads that may be offered.
    pub range: SearchRange,
    /// How close the bounds must come, relative to the upper one; never closer than one frame per second.
    pub width: Fraction,
    /// The length of each trial.
    #[serde(rename = "trial_ns", with = "nanoseconds")]
    pub trial: Duration,
    /// The parameters max(r) and z of TST 009.
    pub verification: Verification,
}

/// The result: the highest load at which a trial without loss was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Whether the trials took 60 s.
    pub length: TrialLength,
    /// The result.
    pub finding: Finding<Load>,
    /// Every trial.
    pub trials: Vec<Record>,
}

/// Searches for the highest load that passes within max(r) trials, by halving.
impl Search for Plan {
    type Found = Outcome;
    type Strategy = Verified<TrialInput>;

    fn strategy(&self) -> Verified<TrialInput> {
        let bisection = VerifiedBisection::new(self.range, self.width, self.verification);
        Verified::new(TrialInput { load: self.range.max(), duration: self.trial }, bisection)
    }

    fn found(self, strategy: Verified<TrialInput>, driven: Driven<TrialInput, TrialResult>) -> Outcome {
        let finding = strategy.finding(driven.cut);
        Outcome { plan: self, length: TrialLength::of(self.trial), finding, trials: driven.trials }
    }
}
