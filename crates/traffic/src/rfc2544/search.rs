//! Runs the search that was asked for.
use std::time::Duration;

use crate::results::SearchResult;
use crate::search::{
    Fraction, Load, Measured, Progress as Step, SearchRange, maximum, mlr, rfc2544, run, tst009,
};

use super::bench::Bench;
use super::job::MAXIMUM_TRIALS;
use super::job::Method;
use super::run_error::RunError;

/// {Goal Initial Trial Duration} of RFC 9971.
const MLR_INITIAL_TRIAL: Duration = Duration::from_secs(1);

/// The result, with every trial.
pub fn searched(bench: &mut Bench<'_, '_>, range: SearchRange) -> Result<SearchResult, RunError> {
    let (job, say, recorder) = (bench.job, bench.say, bench.recorder);
    let budget = &Bench::budget();
    let measure = |load: Load, duration: Duration| bench.trial(load, duration);
    let observe = |step: Step<'_, Load>| {
        say(&described(&step));
        recorder.borrow_mut().trial(|so_far| {
            so_far.search_trials.push(step.trial.clone());
            if let Some(bounds) = step.bounds.first() {
                (so_far.lower_fps, so_far.upper_fps) = (bounds.lower, bounds.upper);
            }
        });
    };
    let (trial, width) = (job.trial, job.width);
    Ok(match job.method {
        Method::Rfc2544 => {
            let search_trial = (!job.is_quick()).then_some(Duration::from_secs(5));
            let plan = rfc2544::ThroughputPlan { range, width, final_trial: trial, search_trial };
            let found = run(plan, budget, measure, observe)?;
            SearchResult::Rfc2544 { finding: found.finding, trials: found.trials }
        }
        Method::Tst009 => {
            let plan = tst009::Plan { range, width, trial, verification: job.verification };
            let found = run(plan, budget, measure, observe)?;
            SearchResult::Tst009 { finding: found.finding, trials: found.trials }
        }
        Method::Mlr => {
            let loss = Fraction::from_percent(0.5).unwrap_or(Fraction::ZERO);
            // Shorter trials classify loads that are far from the result.
            let first = trial.min(MLR_INITIAL_TRIAL);
            let goal = |loss| {
                mlr::Goal::new(trial, trial * 2, loss, Fraction::HALF, width)?.with_initial_trial(first)
            };
            let plan = mlr::Plan { range, goals: vec![goal(Fraction::ZERO)?, goal(loss)?] };
            SearchResult::Mlr { outcome: run(&plan, budget, measure, observe)? }
        }
        Method::Maximum => {
            let plan = maximum::Plan { load: range.max(), trial, repeats: MAXIMUM_TRIALS };
            SearchResult::Maximum { outcome: run(plan, budget, measure, observe)? }
        }
    })
}

/// A line for the progress display.
pub fn described(step: &Step<'_, Load>) -> String {
    let mega = |load: Load| format!("{:.3}", load.frames_per_second() as f64 / 1e6);
    let known = |bound: Option<Load>| bound.map_or_else(|| "?".to_owned(), mega);
    let trial = step.trial;
    let line =
        format!("trial {} at {} Mpps {}", trial.number, mega(trial.input.load), result(&trial.measured));
    match step.bounds.first() {
        Some(bounds) => format!("{line}; between {} and {} Mpps", known(bounds.lower), known(bounds.upper)),
        None => line,
    }
}

/// The result of a trial in words, for the progress display.
pub fn result(measured: &Measured) -> String {
    match measured {
        Measured::Valid(result) => format!("lost {}", result.frames_lost()),
        Measured::Invalid(_) => "disturbed, again".to_owned(),
    }
}
