//! A run in progress: its plan, the launcher of agents, the runner of trials, and the results so far.

use linux::progress::Progress;
use measure::network::PathRecord;
use measure::{Absence, EnvironmentRecord, Failure, MetricId, Outcome, Results, Trial};

use super::run_plan::RunPlan;
use crate::Launcher;
use crate::runner::{Attempt, Runner};

/// A run in progress.
pub struct Session<'a> {
    /// The plan of the run.
    pub plan: &'a RunPlan,
    /// Starts the agents.
    pub launcher: &'a Launcher,
    /// Shows the user what is being done.
    pub progress: &'a Progress,
    /// Runs every trial.
    pub runner: Runner,
    /// The results so far.
    pub results: Results,
}

/// The position of a trial in a run.
#[derive(Clone, Copy)]
pub struct At {
    pub block: u32,
    pub round: u32,
}

impl At {
    /// Whether the environments take turns in reverse order.
    pub fn is_backwards(self) -> bool {
        (self.block + self.round) % 2 == 1
    }
}

impl Session<'_> {
    /// The record of an environment.
    pub fn environment(&mut self, index: usize) -> &mut EnvironmentRecord {
        &mut self.results.environments[index]
    }

    /// The record of a network path.
    pub fn path(&mut self, name: &str) -> Option<&mut PathRecord> {
        self.results.network.paths.iter_mut().find(|record| record.name == name)
    }

    /// Whether an earlier trial found that the metric cannot be measured in the environment.
    pub fn is_absent(&self, metric: &MetricId, environment: &str) -> bool {
        let absences = &self.results.absences;
        absences.iter().any(|absence| absence.metric == *metric && absence.environment == environment)
    }

    /// Records that a metric cannot be measured in an environment.
    pub fn absent(&mut self, metric: &MetricId, environment: &str, reason: Failure) {
        let (metric, environment) = (metric.clone(), environment.to_owned());
        self.results.absences.push(Absence { metric, environment, reason });
    }
}

/// The record of an attempt for the results file, with one of its outcomes.
pub fn recorded<T>(
    metric: &MetricId,
    environment: &str,
    at: At,
    attempt: &Attempt<T>,
    outcome: Outcome,
) -> Trial {
    Trial {
        metric: metric.clone(),
        environment: environment.to_owned(),
        block: at.block,
        round: at.round,
        attempt: attempt.number,
        outcome,
        host_noise: attempt.host_noise.clone(),
        verdict: attempt.verdict.clone(),
    }
}
