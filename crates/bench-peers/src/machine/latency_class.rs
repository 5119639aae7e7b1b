//! Divides trials into classes by core-to-core latency. A host that moves virtual CPUs places them sometimes next to
//! each other and sometimes on two dies. The run then has two kinds of machine, and a median or a ratio over both is
//! of no use.
use measure::classes::limit_between;
use measure::statistics::median;

use crate::results::{Results, Trial};

fn line(trial: &Trial) -> [f64; 2] {
    trial.machine.map(|state| state.line_ns)
}

/// The limit between the two classes: the latency of a cache line is below it in the lower class and above it in the
/// upper. `None` if all trials are alike.
pub fn limit_ns(results: &Results) -> Option<f64> {
    limit_between(&results.trials.iter().flat_map(line).collect::<Vec<_>>())
}

/// The class of a trial; empty if all trials are alike; `None` if there are two classes and the class changed during
/// the trial.
pub fn of_trial(trial: &Trial, limit_ns: Option<f64>) -> Option<&'static str> {
    let Some(limit_ns) = limit_ns else { return Some("") };
    match line(trial).map(|ns| ns > limit_ns) {
        [false, false] => Some("low"),
        [true, true] => Some("high"),
        _ => None,
    }
}

/// The median latency of a cache line in a class in ns, and the number of counting trials in the class.
pub fn line_ns(results: &Results, limit_ns: f64, class: &str) -> Option<(f64, usize)> {
    let of = |trial: &&Trial| trial.verdict.counts() && of_trial(trial, Some(limit_ns)) == Some(class);
    let all: Vec<f64> = results.trials.iter().filter(of).flat_map(line).collect();
    Some((median(&all)?, all.len() / 2))
}
