use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::search::drive::{Driven, Search, Strategy};
use crate::search::{Bounds, Cut, Load, Record, TrialInput, TrialLength, TrialResult, nanoseconds};

/// The step in load from one trial to the next, in per cent of the maximum: 1 to 10, the largest that RFC 2544
/// section 26.3 allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Step(u8);

impl Step {
    /// 10 %.
    pub const COARSEST: Step = Step(10);

    /// From per cent.
    pub const fn from_percent(percent: u8) -> Option<Step> {
        if percent >= 1 && percent <= 10 { Some(Step(percent)) } else { None }
    }
}

impl From<Step> for u8 {
    fn from(step: Step) -> u8 {
        step.0
    }
}

impl TryFrom<u8> for Step {
    type Error = &'static str;

    fn try_from(percent: u8) -> Result<Step, Self::Error> {
        Step::from_percent(percent).ok_or("a step of the frame loss rate is 1 to 10 per cent")
    }
}

/// Trials at falling loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameLossPlan {
    /// The load of 100 %: the maximum rate for the frame size.
    #[serde(rename = "max_fps")]
    pub max: Load,
    /// The step in load.
    #[serde(rename = "step_percent")]
    pub step: Step,
    /// The length of each trial: 60 s by RFC 2544 section 24, less in quick mode.
    #[serde(rename = "trial_ns", with = "nanoseconds")]
    pub trial: Duration,
}

/// The loss at one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossPoint {
    /// The load in per cent of the maximum.
    pub percent: u8,
    /// The load.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// The frames offered and received, whose loss ratio is the frame loss rate.
    pub result: TrialResult,
}

/// The frame loss rate of RFC 2544 section 26.3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameLoss {
    /// The plan.
    pub plan: FrameLossPlan,
    /// Whether the trials took 60 s.
    pub length: TrialLength,
    /// One point for each load, from 100 % downwards.
    pub points: Vec<LossPoint>,
    /// Whether the last two trials had no loss, as section 26.3 requires. If not, the smallest load still lost
    /// frames, or the measurement was cut short.
    pub ended_lossless: bool,
    /// Every trial.
    pub trials: Vec<Record>,
    /// Why the measurement was cut short.
    pub cut: Option<Cut>,
}

/// Offers 100 % of the maximum, then less and less until two successive trials lose nothing.
impl Search for FrameLossPlan {
    type Found = FrameLoss;
    type Strategy = Walk;

    fn strategy(&self) -> Walk {
        Walk { plan: *self, points: Vec::new() }
    }

    fn found(self, strategy: Walk, driven: Driven<TrialInput, TrialResult>) -> FrameLoss {
        FrameLoss {
            plan: self,
            length: TrialLength::of(self.trial),
            ended_lossless: strategy.ended_lossless(),
            points: strategy.points,
            trials: driven.trials,
            cut: driven.cut,
        }
    }
}

pub struct Walk {
    plan: FrameLossPlan,
    points: Vec<LossPoint>,
}

impl Walk {
    fn ended_lossless(&self) -> bool {
        let last = self.points.last_chunk::<2>();
        last.is_some_and(|two| two.iter().all(|point| point.result.frames_lost() == 0))
    }

    /// The percentage that is due; None below 0.
    fn percent(&self) -> Option<u8> {
        let down = self.points.len().checked_mul(usize::from(self.plan.step.0))?;
        100_u8.checked_sub(u8::try_from(down).ok()?)
    }
}

impl Strategy for Walk {
    type Input = TrialInput;
    type Output = TrialResult;
    type Point = Load;

    fn next(&mut self) -> Option<TrialInput> {
        if self.ended_lossless() {
            return None;
        }
        let percent = u128::from(self.percent()?);
        // At most the maximum, so it fits.
        let load = (u128::from(self.plan.max.frames_per_second()) * percent / 100) as u64;
        // No load is left at 0 %, nor where the rate is less than one frame per second.
        Some(TrialInput { load: Load::new(load)?, duration: self.plan.trial })
    }

    fn take(&mut self, input: TrialInput, result: &TrialResult) {
        if let Some(percent) = self.percent() {
            self.points.push(LossPoint { percent, load: input.load, result: *result });
        }
    }

    fn bounds(&self) -> Vec<Bounds<Load>> {
        Vec::new()
    }
}
