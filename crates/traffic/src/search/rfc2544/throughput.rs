use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::search::bisection::Bisection;
use crate::search::drive::{Driven, Search, Strategy};
use crate::search::{
    Bounds, Finding, Fraction, Load, Record, SearchRange, TrialInput, TrialLength, TrialResult, nanoseconds,
};

/// A search for the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThroughputPlan {
    /// The loads that may be offered.
    pub range: SearchRange,
    /// How close the bounds must come, relative to the upper one; never closer than one frame per second.
    pub width: Fraction,
    /// The length of a deciding trial: 60 s by RFC 2544 section 24, less in quick mode.
    #[serde(rename = "final_trial_ns", with = "nanoseconds")]
    pub final_trial: Duration,
    /// The length of the earlier trials, which section 24 allows to be shorter; `None` if all have the final length.
    /// A load that passed only such a trial is never a result.
    #[serde(rename = "search_trial_ns", with = "optional")]
    pub search_trial: Option<Duration>,
}

/// The throughput of RFC 2544 section 26.1: the lower bound of the finding, at which every frame of a final trial was
/// received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throughput {
    /// The plan.
    pub plan: ThroughputPlan,
    /// Whether final trials took 60 s.
    pub length: TrialLength,
    /// The result.
    pub finding: Finding<Load>,
    /// Every trial.
    pub trials: Vec<Record>,
}

/// Searches for the highest load at which no frame is lost, by halving.
///
/// With short trials on the way, halving with them comes first, and its answer is confirmed by a final trial;
/// where that loses frames, halving goes on below with final trials only. So a search takes at most about
/// twice the binary logarithm of range over width in trials.
impl Search for ThroughputPlan {
    type Found = Throughput;
    type Strategy = Halving;

    fn strategy(&self) -> Halving {
        Halving::new(*self)
    }

    fn found(self, strategy: Halving, driven: Driven<TrialInput, TrialResult>) -> Throughput {
        let finding = strategy.confirmed.finding(driven.cut);
        Throughput { plan: self, length: TrialLength::of(self.final_trial), finding, trials: driven.trials }
    }
}

/// A bisection with short trials first, then final ones.
pub struct Halving {
    final_trial: Duration,
    /// The bounds from final trials. A load that failed a short trial has failed; a load that passed one must be
    /// confirmed.
    confirmed: Bisection<Load>,
    /// The bisection with short trials, while it runs.
    short: Option<(Duration, Bisection<Load>)>,
    /// The result of the short trials, until a final trial has confirmed or refuted it.
    candidate: Option<Load>,
}

impl Halving {
    fn new(plan: ThroughputPlan) -> Halving {
        let bisection = Bisection::new(plan.range, plan.width);
        let short = plan.search_trial.filter(|short| *short < plan.final_trial);
        let short = short.map(|duration| (duration, bisection.clone()));
        Halving { final_trial: plan.final_trial, confirmed: bisection, short, candidate: None }
    }
}

impl Strategy for Halving {
    type Input = TrialInput;
    type Output = TrialResult;
    type Point = Load;

    fn next(&mut self) -> Option<TrialInput> {
        if let Some((duration, short)) = &self.short {
            if let Some(load) = short.next() {
                return Some(TrialInput { load, duration: *duration });
            }
            self.candidate = short.bounds().lower;
            self.short = None;
        }
        let load = self.candidate.or_else(|| self.confirmed.next())?;
        Some(TrialInput { load, duration: self.final_trial })
    }

    fn take(&mut self, input: TrialInput, result: &TrialResult) {
        let lossless = result.frames_lost() == 0;
        if let Some((_, short)) = &mut self.short {
            if lossless {
                return short.carried(input.load);
            }
            short.not_carried(input.load);
        }
        self.candidate = None;
        if lossless {
            self.confirmed.carried(input.load);
        } else {
            self.confirmed.not_carried(input.load);
        }
    }

    fn bounds(&self) -> Vec<Bounds<Load>> {
        vec![self.confirmed.bounds()]
    }
}

/// [`nanoseconds`] that may be absent.
mod optional {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::search::nanoseconds;

    /// Writes the duration as nanoseconds.
    ///
    /// # Errors
    /// The serializer refuses an optional number.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        duration.map(nanoseconds::of).serialize(to)
    }

    /// Reads a duration from nanoseconds.
    ///
    /// # Errors
    /// The input is neither absent nor a number of 64 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
    }
}
