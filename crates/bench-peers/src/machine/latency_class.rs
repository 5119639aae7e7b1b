//! Trials by core-to-core latency. A host that moves virtual CPUs puts them now beside each other and now on two dies:
//! two machines in one run, over both of which no median and no ratio is of use.
use measure::classes::limit_between;
use measure::statistics::median;

use crate::results::{Results, Trial};

fn line(trial: &Trial) -> [f64; 2] {
    trial.machine.map(|state| state.line_ns)
}

/// What a line took less than in the lower class, and more in the upper; None: all were alike.
pub fn limit_ns(results: &Results) -> Option<f64> {
    limit_between(&results.trials.iter().flat_map(line).collect::<Vec<_>>())
}

/// The class of a trial, empty where all were alike; none if there are two and it changed.
pub fn of_trial(trial: &Trial, limit_ns: Option<f64>) -> Option<&'static str> {
    let Some(limit_ns) = limit_ns else { return Some("") };
    match line(trial).map(|ns| ns > limit_ns) {
        [false, false] => Some("low"),
        [true, true] => Some("high"),
        _ => None,
    }
}

/// Median of what a line took in a class, and in how many trials that count.
pub fn line_ns(results: &Results, limit_ns: f64, class: &str) -> Option<(f64, usize)> {
    let of = |trial: &&Trial| trial.verdict.counts() && of_trial(trial, Some(limit_ns)) == Some(class);
    let all: Vec<f64> = results.trials.iter().filter(of).flat_map(line).collect();
    Some((median(&all)?, all.len() / 2))
}
