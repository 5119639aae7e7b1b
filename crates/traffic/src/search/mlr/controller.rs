use std::cmp::Reverse;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::loads::Loads;
use super::selector::{Selector, at_least_one, is_reached};
use super::target::chain;
use super::{Goal, LoadTrial, conditional_throughput};
use crate::search::drive::{Driven, Search, Strategy};
use crate::search::{
    Bounds, Cut, Finding, Fraction, Load, Record, SearchRange, TrialInput, TrialLength, TrialResult,
};

/// A search for several goals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The loads that may be offered.
    pub range: SearchRange,
    /// The goals, in any order.
    pub goals: Vec<Goal>,
}

/// A lower bound, and the rate received at it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowerBound {
    /// The load.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// The conditional throughput in frames per second.
    pub conditional_throughput_fps: f64,
}

/// The result for one goal. [`Finding::Bracketed`] is the RFC's regular result. The other results are irregular and
/// must be marked as such (RFC 9971 "Goal Results").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// Whether full-length trials took 60 s.
    pub length: TrialLength,
    /// The relevant bounds: the smallest upper bound, and the largest lower bound below it.
    pub finding: Finding<Load, LowerBound>,
}

/// The results for all goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The loads that may be offered.
    pub range: SearchRange,
    /// One result for each goal, in the caller's order.
    pub results: Vec<GoalResult>,
    /// Every trial.
    pub trials: Vec<Record>,
    /// Why the search was cut short. Goals that were not reached by then are undecided.
    pub cut: Option<Cut>,
}

/// Searches for all goals at once; each trial counts for each of them.
///
/// The first trial is at the maximum, the second at the rate that was received in the first. The rate that was received
/// in the second trial is the start of each goal's chain of targets: coarser and shorter targets first, the goal itself
/// last. Of the loads that the goals ask for, the lowest is measured: bounds found at smaller loads first are less
/// likely to be moved later (RFC 9971 "Consequences"). At each load the search measures until the load is classified:
/// with short trials of doubling length while all of them lose too much, otherwise with full-length trials.
///
/// If another goal's trials have moved the bounds of a goal, that goal is searched again. If this never ends, the
/// budget ends it, and the goal is undecided.
impl<'a> Search for &'a Plan {
    type Found = Outcome;
    type Strategy = Controller<'a>;

    fn strategy(&self) -> Controller<'a> {
        Controller::new(self)
    }

    fn found(self, strategy: Controller<'a>, driven: Driven<TrialInput, TrialResult>) -> Outcome {
        let results = (0..self.goals.len()).map(|goal| strategy.result(goal, driven.cut)).collect();
        Outcome { range: self.range, results, trials: driven.trials, cut: driven.cut }
    }
}

/// The range of the results, as shown by the rate that was received.
enum Opening {
    /// A trial at the maximum is in progress.
    Maximum,
    /// A trial at the rate that was received at the maximum is in progress.
    Forwarded(Load),
    /// Both trials are done.
    Done,
}

pub struct Controller<'a> {
    goals: &'a [Goal],
    range: SearchRange,
    opening: Opening,
    /// The selectors of all goals, in the caller's order.
    selectors: Vec<Selector>,
    loads: Loads,
    /// The loss of the strictest goal; length and width of the first trials, which are the longest and the widest
    /// that a first target has; and the closest width of all goals.
    loss: Fraction,
    trial: Duration,
    width: Fraction,
    closest: Fraction,
}

impl<'a> Controller<'a> {
    fn new(plan: &'a Plan) -> Controller<'a> {
        let first = |goal: &Goal| chain(goal).first().copied().unwrap_or(*goal);
        let of = |of: fn(&Goal) -> Fraction| plan.goals.iter().map(first).map(move |goal| of(&goal));
        Controller {
            goals: &plan.goals,
            range: plan.range,
            opening: Opening::Maximum,
            selectors: Vec::new(),
            loads: Loads::default(),
            loss: of(|goal| goal.loss()).min().unwrap_or(Fraction::ZERO),
            trial: plan.goals.iter().map(|goal| first(goal).final_trial()).max().unwrap_or_default(),
            width: of(|goal| goal.width()).max().unwrap_or(Fraction::ZERO),
            closest: plan.goals.iter().map(Goal::width).min().unwrap_or(Fraction::ZERO),
        }
    }

    fn result(&self, index: usize, cut: Option<Cut>) -> GoalResult {
        let goal = self.goals[index];
        let bounds = self.loads.relevant(&goal);
        let lower = bounds.lower.map(|load| LowerBound {
            load,
            conditional_throughput_fps: conditional_throughput(&goal, load, self.loads.at(load)),
        });
        let missed = cut.filter(|_| !is_reached(&goal, self.range, bounds));
        let finding = match (missed, lower, bounds.upper) {
            (Some(cut), lower, upper) => Finding::Undecided { lower, upper, cut },
            (None, Some(lower), Some(upper)) => Finding::Bracketed { lower, upper },
            (None, Some(lower), None) => Finding::AtMaximum { lower },
            // Reached without a lower bound: the minimum itself is the upper bound.
            (None, None, _) => Finding::BelowMinimum { upper: self.range.min() },
        };
        GoalResult { goal, length: TrialLength::of(goal.final_trial()), finding }
    }

    /// After a trial of the opening: where to look next.
    fn open(&mut self, load: Load, result: &TrialResult) {
        let lossy = result.loss_exceeds(self.loss);
        let tried = load.frames_per_second();
        let less = at_least_one(tried - self.width.of(tried).min(tried - 1)).max(self.range.min());
        let forwarded = self.forwarded(load, result).min(less).max(self.range.min());
        self.opening = match self.opening {
            Opening::Maximum if lossy && load > self.range.min() => Opening::Forwarded(forwarded),
            Opening::Forwarded(_) | Opening::Maximum | Opening::Done => Opening::Done,
        };
        if let Opening::Forwarded(_) = self.opening {
            return;
        }
        let anchors = if load == self.range.max() {
            Bounds { lower: Some(load), upper: None }
        } else if lossy {
            Bounds { lower: Some(forwarded).filter(|lower| *lower < load), upper: Some(load) }
        } else {
            let more = u128::from(tried) * u128::from(Fraction::WHOLE);
            let more = more / u128::from(Fraction::WHOLE - self.width.parts_per_billion());
            let more = at_least_one(u64::try_from(more).unwrap_or(u64::MAX)).min(self.range.max());
            Bounds { lower: Some(load), upper: Some(more).filter(|upper| *upper > load) }
        };
        let selector = |goal| Selector::new(self.range, goal, anchors);
        self.selectors = self.goals.iter().map(selector).collect();
    }

    /// The received rate, plus the loss that the strictest goal allows, less half of the closest width: a device that
    /// is offered exactly the rate that it forwards fails at the next disturbance.
    fn forwarded(&self, load: Load, result: &TrialResult) -> Load {
        let rate = u128::from(load.frames_per_second()) * u128::from(result.frames_received());
        let rate = rate / u128::from(result.frames_offered().max(1)) * u128::from(Fraction::WHOLE);
        let rate = rate / u128::from(Fraction::WHOLE - self.loss.parts_per_billion());
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        at_least_one(rate - self.closest.of(rate) / 2).min(load)
    }
}

impl Strategy for Controller<'_> {
    type Input = TrialInput;
    type Output = TrialResult;
    type Point = Load;

    fn next(&mut self) -> Option<TrialInput> {
        let opening = match self.opening {
            Opening::Maximum if self.goals.is_empty() => return None,
            Opening::Maximum => Some(self.range.max()),
            Opening::Forwarded(load) => Some(load),
            Opening::Done => None,
        };
        if let Some(load) = opening {
            return Some(TrialInput { load, duration: self.trial });
        }
        let asked = self.selectors.iter_mut().filter_map(|selector| selector.nominate(&self.loads));
        // A longer trial counts for goals that would have had a shorter one.
        asked.min_by_key(|input| (input.load, Reverse(input.duration)))
    }

    fn take(&mut self, input: TrialInput, result: &TrialResult) {
        self.loads.add(input.load, LoadTrial { duration: input.duration, result: *result });
        if !matches!(self.opening, Opening::Done) {
            self.open(input.load, result);
        }
    }

    fn bounds(&self) -> Vec<Bounds<Load>> {
        self.goals.iter().map(|goal| self.loads.relevant(goal)).collect()
    }
}
