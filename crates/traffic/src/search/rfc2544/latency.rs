use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::search::drive::drive;
use crate::search::repeats::Repeats;
use crate::search::{
    Budget, Cut, Fraction, Load, Measured, Progress, Record, TrialInput, TrialLength, nanoseconds,
};

/// Latency at one load (RFC 2544 section 26.2): repeated streams, each with a tagged frame in the middle.
///
/// The load that the section specifies is the throughput. `tautline rfc2544` does not use that load: at its full
/// throughput, a software device's queues or the generator's lateness would determine the result (docs/rfc2544.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyPlan {
    #[serde(rename = "load_fps")]
    load: Load,
    #[serde(rename = "stream_ns", with = "nanoseconds")]
    stream: Duration,
    repeats: NonZeroU32,
}

impl LatencyPlan {
    const STREAM: Duration = Duration::from_secs(120);
    const REPEATS: u32 = 20;

    /// The plan of section 26.2: 120 s at the throughput found for the frame size, 20 times.
    pub fn full(throughput: Load) -> LatencyPlan {
        let repeats = NonZeroU32::new(Self::REPEATS).expect("not zero");
        LatencyPlan { load: throughput, stream: Self::STREAM, repeats }
    }

    /// A stream of any length, any number of times. It is labelled quick if section 26.2 requires more.
    pub fn new(load: Load, stream: Duration, repeats: NonZeroU32) -> LatencyPlan {
        LatencyPlan { load, stream, repeats }
    }

    /// Returns this plan at a fraction of its load, such as 10 % or 50 %; at least one frame per second.
    pub fn at_fraction(self, share: Fraction) -> LatencyPlan {
        let load = share.of(self.load.frames_per_second());
        LatencyPlan { load: Load::new(load.max(1)).expect("at least one"), ..self }
    }

    /// The load.
    pub fn load(&self) -> Load {
        self.load
    }

    /// The length of each stream.
    pub fn stream(&self) -> Duration {
        self.stream
    }

    /// When the tagged frame is due, after the stream's start: in the middle, for example 60 s of 120 s.
    pub fn tagged_after(&self) -> Duration {
        self.stream / 2
    }

    /// How often.
    pub fn repeats(&self) -> NonZeroU32 {
        self.repeats
    }

    /// Whether stream and repeats are as long and as many as section 26.2 requires.
    pub fn length(&self) -> TrialLength {
        if self.stream >= Self::STREAM && self.repeats.get() >= Self::REPEATS {
            TrialLength::Full
        } else {
            TrialLength::Quick
        }
    }
}

/// The repeats. `R` is the caller's type for the result of a repeat, such as one tagged frame's time or a histogram
/// of all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency<R> {
    /// The plan.
    pub plan: LatencyPlan,
    /// Whether stream and repeats met section 26.2. A measurement that was cut short is quick.
    pub length: TrialLength,
    /// Every trial.
    pub trials: Vec<Record<TrialInput, R>>,
    /// Why there are fewer repeats than planned, if so.
    pub cut: Option<Cut>,
}

impl<R> Latency<R> {
    /// The results of the valid repeats.
    pub fn results(&self) -> impl Iterator<Item = &R> {
        self.trials.iter().filter_map(|trial| trial.measured.valid())
    }
}

/// Measures the latency (RFC 2544 section 26.2) as often as the plan says. `measure` is called with the load and the
/// stream's length. Latency must be counted from the scheduled instant, not from the actual sending (coordinated
/// omission).
///
/// # Errors
/// `measure` returned an error, which ends the measurement. An invalid trial is no error.
pub fn latency<R, E>(
    plan: LatencyPlan,
    budget: &Budget,
    mut measure: impl FnMut(Load, Duration) -> Result<Measured<R>, E>,
    observe: impl FnMut(Progress<'_, Load, TrialInput, R>),
) -> Result<Latency<R>, E> {
    let input = TrialInput { load: plan.load, duration: plan.stream };
    let mut repeats = Repeats::new(input, plan.repeats);
    let driven = drive(&mut repeats, budget, |input| measure(input.load, input.duration), observe)?;
    let length = if driven.cut.is_some() { TrialLength::Quick } else { plan.length() };
    Ok(Latency { plan, length, trials: driven.trials, cut: driven.cut })
}
