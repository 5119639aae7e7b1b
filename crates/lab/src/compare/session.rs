//! A run in progress: what was decided, what starts agents, what runs trials, and what is known so far.

use linux::progress::Progress;
use measure::network::PathRecord;
use measure::{Absence, EnvironmentRecord, Failure, MetricId, Outcome, Results, Trial};

use super::run_plan::RunPlan;
use crate::Launcher;
use crate::runner::{Attempt, Runner};

/// A run in progress.
pub struct Session<'a> {
    /// Everything that was decided before.
    pub plan: &'a RunPlan,
    /// What starts agents.
    pub launcher: &'a Launcher,
    /// Where the user sees what is done.
    pub progress: &'a Progress,
    /// What runs every trial.
    pub runner: Runner,
    /// What is known so far.
    pub results: Results,
}

/// Where in a run a trial stands.
#[derive(Clone, Copy)]
pub struct At {
    pub block: u32,
    pub round: u32,
}

impl At {
    /// Whether environments take their turns backwards.
    pub fn is_backwards(self) -> bool {
        (self.block + self.round) % 2 == 1
    }
}

impl Session<'_> {
    /// What is recorded of an environment.
    pub fn environment(&mut self, index: usize) -> &mut EnvironmentRecord {
        &mut self.results.environments[index]
    }

    /// What is recorded of a network path.
    pub fn path(&mut self, name: &str) -> Option<&mut PathRecord> {
        self.results.network.paths.iter_mut().find(|record| record.name == name)
    }

    /// Whether a metric could not be measured in an environment before.
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

/// An attempt of a trial as results files have it, with one of the outcomes that it gave.
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
