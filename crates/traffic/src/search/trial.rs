use std::cmp::Ordering;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fraction, Load, nanoseconds};

/// What a search asks of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialInput {
    /// The load to offer.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// How long to offer it; the waits around it are not part of it.
    #[serde(rename = "duration_ns", with = "nanoseconds")]
    pub duration: Duration,
}

/// The counts of one valid trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Counts", into = "Counts")]
pub struct TrialResult {
    frames_offered: NonZeroU64,
    frames_received: u64,
    sending: Duration,
}

/// The serialised form of [`TrialResult`].
#[derive(Serialize, Deserialize)]
struct Counts {
    frames_offered: u64,
    frames_received: u64,
    sending_ns: u64,
}

/// Counts that no trial can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// No frame was offered: the trial is too short for its load, and its loss is undefined.
    #[error("a trial offered no frame: take a longer trial or a higher load")]
    NothingOffered,
    /// More came back than was sent: duplicates or frames of others must be told apart by their sequence
    /// numbers before they are counted (RFC 2544 section 10).
    #[error("a trial received {received} frames of {offered} offered: count each test frame once")]
    MoreReceivedThanOffered {
        /// Frames offered.
        offered: u64,
        /// Frames received.
        received: u64,
    },
    /// The trial took no time.
    #[error("a trial took no time: the sender's clock stood still")]
    NoTime,
}

impl TrialResult {
    /// The counts of a trial: frames that left the generator, distinct test frames that came back, and the
    /// time from the first frame's departure to the end of the last one's slot.
    ///
    /// # Errors
    /// No frame was offered, more frames were received than offered, or `sending` is zero.
    pub fn new(
        frames_offered: u64,
        frames_received: u64,
        sending: Duration,
    ) -> Result<TrialResult, CountError> {
        let offered = NonZeroU64::new(frames_offered).ok_or(CountError::NothingOffered)?;
        if frames_received > frames_offered {
            let (offered, received) = (frames_offered, frames_received);
            return Err(CountError::MoreReceivedThanOffered { offered, received });
        }
        if sending.is_zero() {
            return Err(CountError::NoTime);
        }
        Ok(TrialResult { frames_offered: offered, frames_received, sending })
    }

    /// Frames that left the generator.
    pub fn frames_offered(&self) -> u64 {
        self.frames_offered.get()
    }

    /// Distinct test frames that came back.
    pub fn frames_received(&self) -> u64 {
        self.frames_received
    }

    /// Frames that did not come back.
    pub fn frames_lost(&self) -> u64 {
        self.frames_offered.get() - self.frames_received
    }

    /// The time in which the frames were offered.
    pub fn sending(&self) -> Duration {
        self.sending
    }

    /// Whether the loss ratio is larger than `limit`: a high-loss trial (RFC 9971 "Trial Classification").
    pub fn loss_exceeds(&self, limit: Fraction) -> bool {
        limit.is_exceeded_by(self.frames_lost(), self.frames_offered.get())
    }

    /// Orders by loss ratio, exactly.
    pub fn compare_loss(&self, other: &TrialResult) -> Ordering {
        let mine = u128::from(self.frames_lost()) * u128::from(other.frames_offered.get());
        let others = u128::from(other.frames_lost()) * u128::from(self.frames_offered.get());
        mine.cmp(&others)
    }

    /// Lost over offered, for display; decisions use [`TrialResult::loss_exceeds`].
    pub fn loss_ratio(&self) -> f64 {
        self.frames_lost() as f64 / self.frames_offered.get() as f64
    }

    /// Frames per second that came through: received over the time of sending, for display.
    pub fn received_fps(&self) -> f64 {
        self.frames_received as f64 / self.sending.as_secs_f64()
    }
}

impl From<TrialResult> for Counts {
    fn from(result: TrialResult) -> Counts {
        Counts {
            frames_offered: result.frames_offered.get(),
            frames_received: result.frames_received,
            sending_ns: nanoseconds::of(result.sending),
        }
    }
}

impl TryFrom<Counts> for TrialResult {
    type Error = CountError;

    fn try_from(counts: Counts) -> Result<TrialResult, CountError> {
        let sending = Duration::from_nanos(counts.sending_ns);
        TrialResult::new(counts.frames_offered, counts.frames_received, sending)
    }
}

/// Why a trial is invalid: the generator did not do what was asked of it. Loss at the
/// generator is never loss of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Invalid {
    /// The generator or the receiver was taken off its CPU.
    Preempted,
    /// Slots of the schedule passed unused.
    MissedRate {
        /// Frames that were due.
        frames_due: u64,
        /// Frames that left.
        frames_sent: u64,
    },
    /// Something else, in words for the output.
    Other(String),
}

/// The answer to one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured<R = TrialResult> {
    /// A result.
    Valid(R),
    /// No result; the trial is repeated.
    Invalid(Invalid),
}

impl<R> Measured<R> {
    /// The result, where there is one.
    pub fn valid(&self) -> Option<&R> {
        match self {
            Measured::Valid(result) => Some(result),
            Measured::Invalid(_) => None,
        }
    }
}

/// One trial as it was asked for and answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<I = TrialInput, R = TrialResult> {
    /// Counts every trial of the search from 1, invalid ones included.
    pub number: u32,
    /// 1 for the first try at this trial, counting up where invalid ones made a repeat necessary.
    pub attempt: u32,
    /// What was asked.
    pub input: I,
    /// What came of it.
    pub measured: Measured<R>,
}

/// Whether the deciding trials had the length that the method asks for. Quick ones are labelled in every
/// output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialLength {
    /// At least what the method asks for.
    Full,
    /// Shorter or fewer: says something about the device, and is not comparable with full ones.
    Quick,
}

impl TrialLength {
    /// 60 s is the least for a trial that decides (RFC 2544 section 24).
    pub(super) const LEAST: Duration = Duration::from_secs(60);

    pub(super) fn of(deciding: Duration) -> TrialLength {
        if deciding >= Self::LEAST { TrialLength::Full } else { TrialLength::Quick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn impossible_counts_are_refused() {
        assert_eq!(TrialResult::new(0, 0, SECOND), Err(CountError::NothingOffered));
        assert_eq!(TrialResult::new(1, 1, Duration::ZERO), Err(CountError::NoTime));
        let more = CountError::MoreReceivedThanOffered { offered: 1, received: 2 };
        assert_eq!(TrialResult::new(1, 2, SECOND), Err(more));
        let text = r#"{"frames_offered":1,"frames_received":2,"sending_ns":1}"#;
        assert!(serde_json::from_str::<TrialResult>(text).is_err());
    }

    #[test]
    fn loss_is_compared_as_a_ratio_and_exactly() {
        let result = |offered, received| TrialResult::new(offered, received, SECOND).unwrap();
        assert_eq!(result(10, 9).compare_loss(&result(1000, 900)), Ordering::Equal);
        assert_eq!(result(10, 9).compare_loss(&result(1000, 901)), Ordering::Greater);
        let (large, larger) = (result(u64::MAX, 1), result(u64::MAX, 0));
        assert_eq!(large.compare_loss(&larger), Ordering::Less);
        assert!(large.loss_exceeds(Fraction::ZERO));
        assert!(!result(7, 7).loss_exceeds(Fraction::ZERO));
    }

    #[test]
    fn a_trial_reads_back_from_json_as_it_was() {
        let input = TrialInput { load: Load::new(1000).unwrap(), duration: SECOND };
        let measured = Measured::Valid(TrialResult::new(1000, 999, SECOND).unwrap());
        let record = Record { number: 3, attempt: 1, input, measured };
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains(r#""load_fps":1000,"duration_ns":1000000000"#), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }
}
