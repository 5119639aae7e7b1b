use std::cmp::Ordering;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fraction, Load, nanoseconds};

/// The parameters of one trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialInput {
    /// The load to offer.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// How long to offer it, without the waits around it.
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

/// Counts that are impossible for a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// No frame was offered: the trial is too short for its load, and its loss is undefined.
    #[error("a trial offered no frame: take a longer trial or a higher load")]
    NothingOffered,
    /// More frames were received than sent. Duplicates and frames of other programs must be excluded by their
    /// sequence numbers before counting (RFC 2544 section 10).
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
    /// The counts of a trial: frames sent, distinct test frames received, and the time from the start of the first
    /// frame to the end of the last one's slot.
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

    /// Frames that were sent.
    pub fn frames_offered(&self) -> u64 {
        self.frames_offered.get()
    }

    /// Distinct test frames that were received.
    pub fn frames_received(&self) -> u64 {
        self.frames_received
    }

    /// Frames that were not received.
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

    /// Orders trials by loss ratio, exactly.
    pub fn compare_loss(&self, other: &TrialResult) -> Ordering {
        let mine = u128::from(self.frames_lost()) * u128::from(other.frames_offered.get());
        let others = u128::from(other.frames_lost()) * u128::from(self.frames_offered.get());
        mine.cmp(&others)
    }

    /// Lost frames divided by offered frames, for display. Decisions use [`TrialResult::loss_exceeds`].
    pub fn loss_ratio(&self) -> f64 {
        self.frames_lost() as f64 / self.frames_offered.get() as f64
    }

    /// Received frames per second of the sending time, for display.
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

/// Why a trial is invalid: the generator did not keep to its schedule. Loss at the generator never counts as loss of
/// the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Invalid {
    /// The generator or the receiver was preempted.
    Preempted,
    /// The generator missed slots of the schedule.
    MissedRate {
        /// Frames that were due.
        frames_due: u64,
        /// Frames that were sent.
        frames_sent: u64,
    },
    /// Another reason, in words.
    Other(String),
}

/// The result of one trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured<R = TrialResult> {
    /// A result.
    Valid(R),
    /// The trial has no result and is repeated.
    Invalid(Invalid),
}

impl<R> Measured<R> {
    /// The result, if the trial is valid.
    pub fn valid(&self) -> Option<&R> {
        match self {
            Measured::Valid(result) => Some(result),
            Measured::Invalid(_) => None,
        }
    }
}

/// One trial with its parameters and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<I = TrialInput, R = TrialResult> {
    /// The number of the trial in the search, from 1, including invalid ones.
    pub number: u32,
    /// 1 for the first try of this trial; higher after invalid ones.
    pub attempt: u32,
    /// The parameters.
    pub input: I,
    /// The result.
    pub measured: Measured<R>,
}

/// Whether the deciding trials had the length that the method requires. Quick trials are labelled in every output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialLength {
    /// At least the required length.
    Full,
    /// Shorter or fewer trials. The result is not comparable with a full one.
    Quick,
}

impl TrialLength {
    /// The least length of a deciding trial, 60 s (RFC 2544 section 24).
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
