use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Bounds, Cut, Load, Measured, Record, TrialInput, TrialResult, nanoseconds};

/// The limits of a search. The search ends before the trial that would exceed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// The most trials, including invalid ones.
    pub trials: u32,
    /// The most traffic: the durations of all trials, including invalid ones, without the waits around them.
    #[serde(rename = "traffic_ns", with = "nanoseconds")]
    pub traffic: Duration,
    /// The most tries of one trial until a valid one, including the first.
    pub attempts: NonZeroU32,
}

impl Default for Budget {
    /// 1,000 trials, a day of traffic, 5 tries.
    fn default() -> Self {
        let attempts = NonZeroU32::new(5).expect("not zero");
        Budget { trials: 1000, traffic: Duration::from_secs(24 * 3600), attempts }
    }
}

/// The progress that an observer gets after each trial.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a, P, I = TrialInput, R = TrialResult> {
    /// The trial.
    pub trial: &'a Record<I, R>,
    /// The bounds so far: one pair for a single search, one pair per goal in the caller's order for MLRsearch, none
    /// if nothing is searched for.
    pub bounds: &'a [Bounds<P>],
}

/// The time that a trial will cost.
pub trait Cost: Copy {
    fn duration(self) -> Duration;
}

impl Cost for TrialInput {
    fn duration(self) -> Duration {
        self.duration
    }
}

/// A search as a state machine: which trial to make next, and how to use its result. It never sees an invalid trial.
pub trait Strategy {
    type Input: Cost;
    type Output;
    type Point;

    /// The next trial; `None` when the search is finished. Without a result in between, it returns the same trial
    /// again.
    fn next(&mut self) -> Option<Self::Input>;
    fn take(&mut self, input: Self::Input, output: &Self::Output);
    fn bounds(&self) -> Vec<Bounds<Self::Point>>;
}

/// The trials of a driven search, and the reason if it was cut short.
pub struct Driven<I, R> {
    pub trials: Vec<Record<I, R>>,
    pub cut: Option<Cut>,
}

/// Calls `measure` for trials until the strategy is finished or the budget is spent.
pub(super) fn drive<S: Strategy, E>(
    strategy: &mut S,
    budget: &Budget,
    mut measure: impl FnMut(S::Input) -> Result<Measured<S::Output>, E>,
    mut observe: impl FnMut(Progress<'_, S::Point, S::Input, S::Output>),
) -> Result<Driven<S::Input, S::Output>, E> {
    let mut trials = Vec::new();
    let mut traffic = Duration::ZERO;
    let mut attempt = 1;
    while let Some(input) = strategy.next() {
        if trials.len() >= budget.trials as usize {
            return Ok(Driven { trials, cut: Some(Cut::Trials) });
        }
        traffic = traffic.saturating_add(input.duration());
        if traffic > budget.traffic {
            return Ok(Driven { trials, cut: Some(Cut::Traffic) });
        }
        let measured = measure(input)?;
        if let Measured::Valid(output) = &measured {
            strategy.take(input, output);
        }
        let invalid = matches!(measured, Measured::Invalid(_));
        trials.push(Record { number: trials.len() as u32 + 1, attempt, input, measured });
        let bounds = strategy.bounds();
        observe(Progress { trial: trials.last().expect("just pushed"), bounds: &bounds });
        if invalid && attempt >= budget.attempts.get() {
            return Ok(Driven { trials, cut: Some(Cut::Invalid) });
        }
        attempt = if invalid { attempt + 1 } else { 1 };
    }
    Ok(Driven { trials, cut: None })
}

/// A search over loads, as its plan describes it.
pub trait Search: Sized {
    /// The result of the search.
    type Found;
    type Strategy: Strategy<Input = TrialInput, Output = TrialResult, Point = Load>;

    fn strategy(&self) -> Self::Strategy;
    fn found(self, strategy: Self::Strategy, driven: Driven<TrialInput, TrialResult>) -> Self::Found;
}

/// Makes the trials of a search and returns its result. `measure` is called with the load and the length of each
/// trial. `observe` is called after each trial.
///
/// # Errors
/// `measure` returned an error, which ends the search. An invalid trial is no error.
pub fn run<S: Search, E>(
    plan: S,
    budget: &Budget,
    mut measure: impl FnMut(Load, Duration) -> Result<Measured, E>,
    observe: impl FnMut(Progress<'_, Load>),
) -> Result<S::Found, E> {
    let mut strategy = plan.strategy();
    let driven = drive(&mut strategy, budget, |input| measure(input.load, input.duration), observe)?;
    Ok(plan.found(strategy, driven))
}

/// How many trials were invalid. The number must be shown with every result.
pub fn invalid_trials<I, R>(trials: &[Record<I, R>]) -> usize {
    trials.iter().filter(|trial| trial.measured.valid().is_none()).count()
}
