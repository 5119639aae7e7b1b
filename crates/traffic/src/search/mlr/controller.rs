use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Class, Goal, LoadTrial, classify, conditional_throughput};
use crate::search::bisection::narrow;
use crate::search::drive::{Strategy, drive};
use crate::search::{
    Bounds, Budget, Cut, Finding, Load, Measured, Progress, Record, SearchRange, TrialInput, TrialLength,
    TrialResult,
};

/// A search for several goals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What may be offered.
    pub range: SearchRange,
    /// The goals, in any order.
    pub goals: Vec<Goal>,
}

/// A lower bound and what came through at it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LowerBound {
    /// The load.
    #[serde(rename = "load_fps")]
    pub load: Load,
    /// The conditional throughput in frames per second.
    pub conditional_throughput_fps: f64,
}

/// What was found for one goal. [`Finding::Bracketed`] is the RFC's regular result, the others are irregular
/// ones and must be marked as such (RFC 9971 "Goal Results").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// Whether full-length trials had 60 s.
    pub length: TrialLength,
    /// The relevant bounds: the smallest upper bound, and the largest lower bound below it.
    pub finding: Finding<Load, LowerBound>,
}

/// What was found for all goals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What may be offered.
    pub range: SearchRange,
    /// One result per goal, in the caller's order.
    pub results: Vec<GoalResult>,
    /// Every trial.
    pub trials: Vec<Record>,
    /// What cut the search short; goals that were not reached by then are undecided.
    pub cut: Option<Cut>,
}

/// Searches for all goals at once; each trial counts for each of them.
///
/// Goals with shorter trials come first, stricter ones before looser ones. The first trial is at the maximum.
/// Then comes where an earlier goal ended, or the rate that came through at the maximum. From there it goes
/// down until there is a lower bound, and up from that, in steps that begin with the goal's width and double;
/// between two bounds it never goes beyond the middle, so that it ends by halving. At each load it measures
/// until the load is classified: short trials of doubling length while all of them lose too much, full-length
/// ones otherwise.
///
/// A goal whose bounds another goal's trials have moved is taken up again; if that does not come to rest, the
/// budget ends it, and the goal is undecided.
pub fn search<E>(
    plan: &Plan,
    budget: &Budget,
    mut measure: impl FnMut(Load, Duration) -> Result<Measured, E>,
    observe: impl FnMut(Progress<'_, Load>),
) -> Result<Outcome, E> {
    let mut controller = Controller::new(plan);
    let driven = drive(&mut controller, budget, |input| measure(input.load, input.duration), observe)?;
    let results = (0..plan.goals.len()).map(|goal| controller.result(goal, driven.cut)).collect();
    Ok(Outcome { range: plan.range, results, trials: driven.trials, cut: driven.cut })
}

/// The way from one load to the next for one goal.
#[derive(Clone, Copy, Default)]
struct Walk {
    /// The load that is being classified.
    load: Option<Load>,
    /// The next distance from a bound, in frames per second; 0 before the first step.
    step: u64,
    /// Whether the rate that came through, or another goal's bound, was tried as a start.
    started: bool,
}

struct Controller<'a> {
    goals: &'a [Goal],
    range: SearchRange,
    /// Indices of `goals` in the order in which they are pursued.
    order: Vec<usize>,
    walks: Vec<Walk>,
    loads: BTreeMap<Load, Vec<LoadTrial>>,
}

impl<'a> Controller<'a> {
    fn new(plan: &'a Plan) -> Controller<'a> {
        let goals = &plan.goals;
        let mut order: Vec<usize> = (0..goals.len()).collect();
        // Bounds found at smaller loads first are less likely to be moved later (RFC 9971 "Consequences"), and
        // a stricter goal ends at a smaller load.
        order.sort_by_key(|&index| {
            let goal = &goals[index];
            (goal.final_trial(), goal.loss(), goal.exceed(), goal.duration_sum())
        });
        let walks = vec![Walk::default(); goals.len()];
        Controller { goals, range: plan.range, order, walks, loads: BTreeMap::new() }
    }

    fn class(&self, goal: usize, load: Load) -> Class {
        self.loads.get(&load).map_or(Class::Undecided, |trials| classify(&self.goals[goal], trials))
    }

    /// The relevant bounds (RFC 9971): the smallest load that is an upper bound, and the largest lower bound
    /// below it. A lower bound above the smallest upper bound counts as a fluke.
    fn relevant(&self, goal: usize) -> Bounds<Load> {
        let mut lower = None;
        for (&load, trials) in &self.loads {
            match classify(&self.goals[goal], trials) {
                Class::Upper => return Bounds { lower, upper: Some(load) },
                Class::Lower => lower = Some(load),
                Class::Undecided => {}
            }
        }
        Bounds { lower, upper: None }
    }

    fn is_reached(&self, goal: usize, bounds: Bounds<Load>) -> bool {
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => narrow(lower.into(), upper.into(), self.goals[goal].width()),
            (Some(lower), None) => lower == self.range.max(),
            (None, Some(upper)) => upper == self.range.min(),
            (None, None) => false,
        }
    }

    fn result(&self, index: usize, cut: Option<Cut>) -> GoalResult {
        let goal = self.goals[index];
        let bounds = self.relevant(index);
        let lower = bounds.lower.map(|load| LowerBound {
            load,
            conditional_throughput_fps: conditional_throughput(&goal, load, &self.loads[&load]),
        });
        let missed = cut.filter(|_| !self.is_reached(index, bounds));
        let finding = match (missed, lower, bounds.upper) {
            (Some(cut), lower, upper) => Finding::Undecided { lower, upper, cut },
            (None, Some(lower), Some(upper)) => Finding::Bracketed { lower, upper },
            (None, Some(lower), None) => Finding::AtMaximum { lower },
            // Reached without a lower bound: the minimum itself is the upper one.
            (None, None, _) => Finding::BelowMinimum { upper: self.range.min() },
        };
        GoalResult { goal, length: TrialLength::of(goal.final_trial()), finding }
    }

    /// The load to measure for a goal that is not reached. It lies strictly between the bounds, where none
    /// is classified, so each trial brings a decision nearer.
    fn load_for(&mut self, goal: usize, bounds: Bounds<Load>) -> Load {
        let mut walk = self.walks[goal];
        let undecided = |&load: &Load| self.class(goal, load) == Class::Undecided && is_between(load, bounds);
        if let Some(load) = walk.load.filter(undecided) {
            return load;
        }
        let start = self.start(goal, bounds).filter(|_| !walk.started);
        walk.started |= start.is_some();
        let load = start.unwrap_or_else(|| self.step(goal, &mut walk, bounds));
        walk.load = Some(load);
        self.walks[goal] = walk;
        load
    }

    /// Where to begin: at the maximum, then where an earlier goal ended, else at the rate that came through
    /// at the upper bound.
    fn start(&self, goal: usize, bounds: Bounds<Load>) -> Option<Load> {
        if self.loads.is_empty() || bounds.lower.is_some() {
            return None;
        }
        let earlier = self.order.iter().take_while(|&&other| other != goal);
        let ended = earlier.filter_map(|&other| self.relevant(other).lower);
        let ended = ended.filter(|&load| is_between(load, bounds)).max();
        let forwarded = bounds.upper.and_then(|upper| {
            let best = self.loads[&upper].iter().map(|trial| trial.result);
            let best = best.min_by(|a, b| a.compare_loss(b))?;
            let (received, offered) = (best.frames_received(), best.frames_offered());
            let rate = u128::from(upper.frames_per_second()) * u128::from(received) / u128::from(offered);
            // Not above the upper bound, so it fits.
            Some(at_least_one(rate as u64)).filter(|&load| load < upper)
        });
        ended.or(forwarded).map(|load| load.max(self.range.min()))
    }

    fn step(&self, goal: usize, walk: &mut Walk, bounds: Bounds<Load>) -> Load {
        let (min, max) = (self.range.min(), self.range.max());
        let from = match (bounds.lower, bounds.upper) {
            (None, None) => return max,
            (Some(lower), _) => lower,
            (None, Some(upper)) => upper,
        };
        let rate = from.frames_per_second();
        let step = if walk.step > 0 { walk.step } else { self.goals[goal].width().of(rate).max(1) };
        walk.step = step.saturating_mul(2);
        let up = at_least_one(rate.saturating_add(step));
        let down = at_least_one(rate.saturating_sub(step));
        match (bounds.lower, bounds.upper) {
            (Some(lower), Some(upper)) => {
                let middle = Load::from(NonZeroU64::from(lower).midpoint(upper.into()));
                up.min(middle)
            }
            (Some(_), None) => up.min(max),
            (None, _) => down.max(min),
        }
    }

    /// While all short trials at the load lose too much, a longer short one may make it an upper bound for
    /// less than full-length ones would cost. After one that does not, only full-length ones help.
    fn duration_for(&self, goal: usize, load: Load) -> Duration {
        let goal = &self.goals[goal];
        let trials = self.loads.get(&load).map_or(&[][..], Vec::as_slice);
        let short = || trials.iter().filter(|trial| trial.duration < goal.final_trial());
        if short().any(|trial| !trial.result.loss_exceeds(goal.loss())) {
            return goal.final_trial();
        }
        let doublings = u32::try_from(short().count()).unwrap_or(u32::MAX);
        let factor = 2_u32.saturating_pow(doublings);
        goal.initial_trial().saturating_mul(factor).min(goal.final_trial())
    }
}

impl Strategy for Controller<'_> {
    type Input = TrialInput;
    type Output = TrialResult;
    type Point = Load;

    fn next(&mut self) -> Option<TrialInput> {
        let bounds = self.bounds();
        let goal = *self.order.iter().find(|&&goal| !self.is_reached(goal, bounds[goal]))?;
        let load = self.load_for(goal, bounds[goal]);
        Some(TrialInput { load, duration: self.duration_for(goal, load) })
    }

    fn take(&mut self, input: TrialInput, result: &TrialResult) {
        let trial = LoadTrial { duration: input.duration, result: *result };
        self.loads.entry(input.load).or_default().push(trial);
    }

    fn bounds(&self) -> Vec<Bounds<Load>> {
        (0..self.goals.len()).map(|goal| self.relevant(goal)).collect()
    }
}

fn is_between(load: Load, bounds: Bounds<Load>) -> bool {
    bounds.lower.is_none_or(|lower| lower < load) && bounds.upper.is_none_or(|upper| load < upper)
}

fn at_least_one(rate: u64) -> Load {
    Load::from(NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN))
}
