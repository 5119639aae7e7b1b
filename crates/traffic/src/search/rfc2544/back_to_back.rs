use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::search::bisection::VerifiedBisection;
use crate::search::drive::{Cost, drive};
use crate::search::positive::positive;
use crate::search::verified::{Asks, Verified};
use crate::search::{
    Budget, Cut, Finding, Fraction, Load, Measured, Progress, Record, SearchRange, TrialResult, Verification,
};

positive! {
    /// A burst of at least one frame, with the smallest gap between frames that the medium allows.
    Burst,
    /// Frames.
    frames
}

/// One trial of a search for a burst. The device is idle with empty buffers; then come the burst, all residual
/// frames, and the 2 s or more that RFC 9004 section 6.2 specifies for draining the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstInput {
    /// The number of frames.
    #[serde(rename = "burst_frames")]
    pub burst: Burst,
    /// The rate within the burst: the highest that the medium allows for the frame size.
    #[serde(rename = "rate_fps")]
    pub rate: Load,
}

impl Cost for BurstInput {
    fn duration(self) -> Duration {
        self.rate.time_for(self.burst.frames())
    }
}

/// A measurement of the longest burst. It is valid only for a single frame size, never for a mix (RFC 9004 section
/// 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackToBackPlan {
    /// The highest rate that the medium allows for the frame size.
    #[serde(rename = "max_rate_fps")]
    pub max_rate: Load,
    /// The throughput found for the frame size.
    #[serde(rename = "throughput_fps")]
    pub throughput: Load,
    /// The longest burst to try. RFC 9004 section 6.2 requires that 30 s are possible.
    #[serde(rename = "max_burst_frames")]
    pub max_burst: Burst,
    /// The first burst, which is doubled until frames are lost; `None` to begin with the longest. From below, a small
    /// buffer is found without bursts that are much longer than the buffer.
    #[serde(rename = "first_burst_frames")]
    pub first_burst: Option<Burst>,
    /// How close the bounds must come, relative to the upper one; never closer than one frame.
    pub width: Fraction,
    /// How often a lossy burst is repeated before it counts. Section 6.2 asks for a binary search, with or without
    /// loss verification.
    pub verification: Verification,
    /// The number of searches, N of section 6.3.
    pub repeats: NonZeroU32,
}

/// One search for the longest burst without loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstSearch {
    /// The result. If the longest allowed burst passed, the buffer was not filled and the search is invalid: longer
    /// bursts are needed.
    pub finding: Finding<Burst>,
    /// Every trial.
    pub trials: BurstTrials,
}

/// The trials of one search for a burst.
pub type BurstTrials = Vec<Record<BurstInput, TrialResult>>;

/// The reported statistics (RFC 9004 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurstStatistics {
    /// The number of searches.
    pub searches: u32,
    /// The mean of the longest bursts, in frames: the benchmark.
    pub mean_frames: f64,
    /// The shortest of the bursts; 0 if a single frame was lost.
    pub min_frames: u64,
    /// The longest of the bursts.
    pub max_frames: u64,
    /// The standard deviation of the bursts, for a sample (n - 1); 0 for one search.
    pub standard_deviation_frames: f64,
    /// The mean divided by the highest rate: the time that the burst takes (section 6.4).
    pub implied_buffer_seconds: f64,
    /// The implied time, minus the time for the frames that the device forwards meanwhile (section 6.4).
    pub corrected_buffer_seconds: f64,
}

/// The back-to-back benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackToBack {
    /// The throughput reaches the highest rate, so no burst can fill the buffer, and none was sent (RFC 9004 section
    /// 6.1).
    NotApplicable {
        /// The plan.
        plan: BackToBackPlan,
    },
    /// The burst was measured.
    Measured {
        /// The plan.
        plan: BackToBackPlan,
        /// Every search, in order.
        searches: Vec<BurstSearch>,
        /// The statistics over all searches. `None` if one of them did not find the buffer's end, because leaving
        /// that one out would lower the mean.
        statistics: Option<BurstStatistics>,
        /// Why the last search was cut short and the others left out.
        cut: Option<Cut>,
    },
}

/// Searches for the longest burst that is forwarded without loss (RFC 9004), as often as the plan says. `measure` is
/// called with the burst and the rate within it. The budget is the limit for all searches together.
///
/// # Errors
/// `measure` returned an error, which ends the search. An invalid trial is no error.
pub fn back_to_back<E>(
    plan: BackToBackPlan,
    budget: &Budget,
    mut measure: impl FnMut(Burst, Load) -> Result<Measured, E>,
    mut observe: impl FnMut(Progress<'_, Burst, BurstInput>),
) -> Result<BackToBack, E> {
    if plan.throughput >= plan.max_rate {
        return Ok(BackToBack::NotApplicable { plan });
    }
    let shortest = Burst::from(NonZeroU64::MIN);
    let range = SearchRange::new(shortest, plan.max_burst).expect("one frame is the least");
    let mut left = *budget;
    let (mut searches, mut cut) = (Vec::new(), None);
    for _ in 0..plan.repeats.get() {
        let bisection = VerifiedBisection::new(range, plan.width, plan.verification);
        let bisection = match plan.first_burst {
            Some(first) => bisection.beginning_at(first),
            None => bisection,
        };
        let first = BurstInput { burst: plan.max_burst, rate: plan.max_rate };
        let mut search = Verified::new(first, bisection);
        let driven = drive(&mut search, &left, |input| measure(input.burst, input.rate), &mut observe)?;
        left.trials -= driven.trials.len() as u32;
        let traffic = driven.trials.iter().map(|trial| trial.input.duration());
        left.traffic = traffic.fold(left.traffic, Duration::saturating_sub);
        let finding = search.finding(driven.cut);
        searches.push(BurstSearch { finding, trials: driven.trials });
        cut = driven.cut;
        if cut.is_some() {
            break;
        }
    }
    let statistics = statistics(&plan, &searches);
    Ok(BackToBack::Measured { plan, searches, statistics, cut })
}

impl Asks for BurstInput {
    type Point = Burst;

    fn point(self) -> Burst {
        self.burst
    }

    fn at(self, burst: Burst) -> Self {
        BurstInput { burst, ..self }
    }
}

fn statistics(plan: &BackToBackPlan, searches: &[BurstSearch]) -> Option<BurstStatistics> {
    let longest = |search: &BurstSearch| match search.finding {
        Finding::Bracketed { lower, .. } => Some(lower.frames()),
        Finding::BelowMinimum { .. } => Some(0),
        Finding::AtMaximum { .. } | Finding::Undecided { .. } => None,
    };
    let bursts: Vec<u64> = searches.iter().map(longest).collect::<Option<_>>()?;
    let (min_frames, max_frames) = (*bursts.iter().min()?, *bursts.iter().max()?);
    let count = bursts.len() as f64;
    let mean_frames = bursts.iter().map(|frames| *frames as f64).sum::<f64>() / count;
    let squares: f64 = bursts.iter().map(|frames| (*frames as f64 - mean_frames).powi(2)).sum();
    let standard_deviation_frames = if bursts.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let max_rate = plan.max_rate.frames_per_second() as f64;
    let implied_buffer_seconds = mean_frames / max_rate;
    let forwarded = plan.throughput.frames_per_second() as f64 / max_rate;
    Some(BurstStatistics {
        searches: bursts.len() as u32,
        mean_frames,
        min_frames,
        max_frames,
        standard_deviation_frames,
        implied_buffer_seconds,
        corrected_buffer_seconds: implied_buffer_seconds * (1.0 - forwarded),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> BackToBackPlan {
        BackToBackPlan {
            max_rate: Load::new(1000).unwrap(),
            throughput: Load::new(600).unwrap(),
            max_burst: Burst::new(1000).unwrap(),
            first_burst: None,
            width: Fraction::ZERO,
            verification: Verification::NONE,
            repeats: NonZeroU32::MIN,
        }
    }

    #[test]
    fn statistics_agree_with_hand_worked_ones() {
        let plan = plan();
        let found = |frames| {
            let (lower, upper) = (Burst::new(frames).unwrap(), Burst::new(frames + 1).unwrap());
            BurstSearch { finding: Finding::Bracketed { lower, upper }, trials: Vec::new() }
        };
        let four = [found(90), found(110), found(100), found(100)];
        let statistics = statistics(&plan, &four).unwrap();
        assert_eq!((statistics.searches, statistics.min_frames, statistics.max_frames), (4, 90, 110));
        assert_eq!(statistics.mean_frames, 100.0);
        // Squares 100 + 100 + 0 + 0 over n - 1 = 3.
        assert!((statistics.standard_deviation_frames - (200.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((statistics.implied_buffer_seconds - 0.1).abs() < 1e-12);
        // Of 100 frames in 0.1 s, 60 are forwarded meanwhile: a buffer of 40 frames, 0.04 s.
        assert!((statistics.corrected_buffer_seconds - 0.04).abs() < 1e-12);
    }

    #[test]
    fn a_buffer_that_was_not_filled_yields_no_statistics() {
        let plan = plan();
        let unfilled = Finding::AtMaximum { lower: plan.max_burst };
        assert_eq!(statistics(&plan, &[BurstSearch { finding: unfilled, trials: Vec::new() }]), None);
        let lost = Finding::BelowMinimum { upper: Burst::new(1).unwrap() };
        let nothing = statistics(&plan, &[BurstSearch { finding: lost, trials: Vec::new() }]).unwrap();
        assert_eq!((nothing.max_frames, nothing.corrected_buffer_seconds), (0, 0.0));
    }
}
