//! Binary search with loss verification (ETSI NFV-TST 009 section 12.3.3): a load at which frames were lost
//! is tried again before it counts as too high, so that a rare disturbance of a software device does not
//! decide the result.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bisection::VerifiedBisection;
use super::drive::{Strategy, drive};
use super::{
    Bounds, Budget, Finding, Fraction, Load, Measured, Progress, Record, SearchRange, TrialInput,
    TrialLength, TrialResult, Verification, nanoseconds,
};

/// A search with loss verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What may be offered.
    pub range: SearchRange,
    /// How close the bounds must come, relative to the upper one; never closer than one frame per second.
    pub width: Fraction,
    /// The length of each trial.
    #[serde(rename = "trial_ns", with = "nanoseconds")]
    pub trial: Duration,
    /// max(r) and z.
    pub verification: Verification,
}

/// The highest load at which a trial without loss was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was asked.
    pub plan: Plan,
    /// Whether the trials had 60 s.
    pub length: TrialLength,
    /// What was found.
    pub finding: Finding<Load>,
    /// Every trial.
    pub trials: Vec<Record>,
}

/// Searches for the highest load that passes within max(r) trials, by halving.
pub fn search<E>(
    plan: Plan,
    budget: &Budget,
    mut measure: impl FnMut(Load, Duration) -> Result<Measured, E>,
    observe: impl FnMut(Progress<'_, Load>),
) -> Result<Outcome, E> {
    let bisection = VerifiedBisection::new(plan.range, plan.width, plan.verification);
    let mut search = Search { trial: plan.trial, bisection };
    let driven = drive(&mut search, budget, |input| measure(input.load, input.duration), observe)?;
    let finding = search.bisection.finding(driven.cut);
    Ok(Outcome { plan, length: TrialLength::of(plan.trial), finding, trials: driven.trials })
}

struct Search {
    trial: Duration,
    bisection: VerifiedBisection<Load>,
}

impl Strategy for Search {
    type Input = TrialInput;
    type Output = TrialResult;
    type Point = Load;

    fn next(&mut self) -> Option<TrialInput> {
        self.bisection.next().map(|load| TrialInput { load, duration: self.trial })
    }

    fn take(&mut self, input: TrialInput, result: &TrialResult) {
        self.bisection.take(input.load, result);
    }

    fn bounds(&self) -> Vec<Bounds<Load>> {
        vec![self.bisection.bounds()]
    }
}
