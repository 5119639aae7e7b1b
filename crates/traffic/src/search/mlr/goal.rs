use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::search::{Fraction, nanoseconds};

/// The first trials of the goals that have a name. FD.io's implementation begins so too.
const INITIAL_TRIAL: Duration = Duration::from_secs(1);

/// One goal of a search (RFC 9971 "Search Goal"). Names in braces are those of the RFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Attributes", into = "Attributes")]
pub struct Goal {
    attributes: Attributes,
}

/// The attributes of a goal before they are checked, and the serialised form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attributes {
    #[serde(rename = "initial_trial_ns", with = "nanoseconds")]
    initial_trial: Duration,
    #[serde(rename = "final_trial_ns", with = "nanoseconds")]
    final_trial: Duration,
    #[serde(rename = "duration_sum_ns", with = "nanoseconds")]
    duration_sum: Duration,
    loss: Fraction,
    exceed: Fraction,
    width: Fraction,
}

/// Why a goal is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// Final trial duration, duration sum and initial trial duration must be positive (RFC 9971).
    #[error("a goal's durations must be positive")]
    ZeroDuration,
    /// The first trials at a load must not be longer than the final ones.
    #[error("a goal's initial trials must not be longer than its final ones")]
    InitialBeyondFinal,
}

impl Goal {
    /// A goal whose trials all have the same length: {Goal Final Trial Duration}, {Goal Duration Sum}, {Goal
    /// Loss Ratio}, {Goal Exceed Ratio}, and {Goal Width}. The width is the distance of the bounds relative to the
    /// upper one, at least one frame per second.
    ///
    /// The width should not be below the loss ratio. Otherwise the conditional throughput of a lossier goal may be
    /// below that of a stricter one (RFC 9971 "Performance Variability").
    ///
    /// # Errors
    /// A duration is zero.
    pub fn new(
        final_trial: Duration,
        duration_sum: Duration,
        loss: Fraction,
        exceed: Fraction,
        width: Fraction,
    ) -> Result<Goal, GoalError> {
        Attributes { initial_trial: final_trial, final_trial, duration_sum, loss, exceed, width }.try_into()
    }

    /// The goal with shorter first trials, which classify loads far from the result in less time: {Goal Initial Trial
    /// Duration}.
    ///
    /// # Errors
    /// The duration is zero, or longer than that of the final trials.
    pub fn with_initial_trial(self, initial_trial: Duration) -> Result<Goal, GoalError> {
        Attributes { initial_trial, ..self.attributes }.try_into()
    }

    /// RFC 2544 as a goal: one trial of 60 s without loss (RFC 9971 "MLRsearch Compliant with RFC 2544").
    pub fn rfc2544(width: Fraction) -> Goal {
        Goal::preset(60, 60, Fraction::ZERO, Fraction::ZERO, width)
    }

    /// ETSI NFV-TST 009 with max(r) = 2 and z = infinity as a goal: one of two trials of 60 s without loss
    /// (RFC 9971 "MLRsearch Compliant with TST009").
    pub fn tst009(width: Fraction) -> Goal {
        Goal::preset(60, 120, Fraction::ZERO, Fraction::HALF, width)
    }

    /// The goal of FD.io CSIT: trials of 1 s, 21 s in sum, half of them within the loss ratio. With zero loss it is
    /// CSIT's no-drop rate, with 0.5 % its partial-drop rate. Width 0.5 %.
    pub fn csit(loss: Fraction) -> Goal {
        let width = Fraction::from_parts_per_billion(5_000_000).expect("0.5 %");
        Goal::preset(1, 21, loss, Fraction::HALF, width)
    }

    fn preset(final_s: u64, sum_s: u64, loss: Fraction, exceed: Fraction, width: Fraction) -> Goal {
        let (final_trial, sum) = (Duration::from_secs(final_s), Duration::from_secs(sum_s));
        let goal = Goal::new(final_trial, sum, loss, exceed, width);
        goal.and_then(|goal| goal.with_initial_trial(INITIAL_TRIAL)).expect("positive durations")
    }

    /// The goal with other trial lengths, sum and width. It stays valid as long as the initial trial is the shortest.
    pub(super) fn coarser(self, final_trial: Duration, duration_sum: Duration, width: Fraction) -> Goal {
        debug_assert!(final_trial >= self.initial_trial() && !duration_sum.is_zero());
        Goal { attributes: Attributes { final_trial, duration_sum, width, ..self.attributes } }
    }

    /// The length of the first trials at a load.
    pub fn initial_trial(&self) -> Duration {
        self.attributes.initial_trial
    }

    /// The least length of a full-length trial.
    pub fn final_trial(&self) -> Duration {
        self.attributes.final_trial
    }

    /// The sum of full-length trials that classifies a load.
    pub fn duration_sum(&self) -> Duration {
        self.attributes.duration_sum
    }

    /// The loss ratio above which a trial is a high-loss one.
    pub fn loss(&self) -> Fraction {
        self.attributes.loss
    }

    /// The share of the duration sum that high-loss trials may have at a lower bound.
    pub fn exceed(&self) -> Fraction {
        self.attributes.exceed
    }

    /// How close the bounds must come, relative to the upper one.
    pub fn width(&self) -> Fraction {
        self.attributes.width
    }
}

impl From<Goal> for Attributes {
    fn from(goal: Goal) -> Attributes {
        goal.attributes
    }
}

impl TryFrom<Attributes> for Goal {
    type Error = GoalError;

    fn try_from(attributes: Attributes) -> Result<Goal, GoalError> {
        // The initial duration is the shortest where it is not too long.
        if attributes.initial_trial.is_zero() || attributes.duration_sum.is_zero() {
            return Err(GoalError::ZeroDuration);
        }
        if attributes.initial_trial > attributes.final_trial {
            return Err(GoalError::InitialBeyondFinal);
        }
        Ok(Goal { attributes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_without_meaning_are_refused() {
        let second = Duration::from_secs(1);
        let goal = |trial, sum| Goal::new(trial, sum, Fraction::ZERO, Fraction::ZERO, Fraction::ZERO);
        assert_eq!(goal(Duration::ZERO, second), Err(GoalError::ZeroDuration));
        assert_eq!(goal(second, Duration::ZERO), Err(GoalError::ZeroDuration));
        let good = goal(second, second).unwrap();
        assert_eq!(good.with_initial_trial(2 * second), Err(GoalError::InitialBeyondFinal));
        assert_eq!(good.with_initial_trial(Duration::ZERO), Err(GoalError::ZeroDuration));
        assert_eq!(good.with_initial_trial(second / 2).unwrap().initial_trial(), second / 2);
    }

    #[test]
    fn a_goal_reads_back_from_json() {
        let goal = Goal::csit(Fraction::from_percent(0.5).unwrap());
        let text = serde_json::to_string(&goal).unwrap();
        assert_eq!(serde_json::from_str::<Goal>(&text).unwrap(), goal);
        let bad = text.replace(r#""duration_sum_ns":21000000000"#, r#""duration_sum_ns":0"#);
        assert_ne!(bad, text);
        assert!(serde_json::from_str::<Goal>(&bad).is_err());
    }
}
