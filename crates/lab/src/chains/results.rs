//! What is written, docs/results-schema.md.

use measure::Failure;
use scenario::Description;
use scenario::chain::{Ended, Outcome};
use serde::{Deserialize, Serialize};

use crate::Origin;

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Where the file comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The scenario, as it ran.
    pub description: Description,
    /// Of each trial.
    pub ticks: u64,
    /// Ticks of 1000 that may be missed by users that fit.
    pub missed_per_thousand: u32,
    /// Whether it was searched for how many users fit.
    pub is_search: bool,
    /// In their order.
    pub environments: Vec<Environment>,
}

impl Results {
    /// Environments with a search or a trial that came to its end.
    pub fn ran(&self) -> Vec<(&Environment, &[Run])> {
        let with_runs = self.environments.iter().filter_map(|environment| {
            let runs = environment.outcome.as_ref().ok()?;
            Some((environment, runs.as_slice()))
        });
        with_runs.filter(|(_, runs)| !runs.is_empty()).collect()
    }
}

/// One environment.
#[derive(Serialize, Deserialize)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Whether members ran on an emulated CPU, here or further out.
    pub is_emulated: bool,
    /// Its searches, or why there is none.
    pub outcome: Result<Vec<Run>, Failure>,
}

/// One search, or one trial.
#[derive(Serialize, Deserialize)]
pub struct Run {
    /// The most users that fitted.
    pub fits: u32,
    /// Its trials, in their order.
    pub trials: Vec<Trial>,
}

/// One trial.
#[derive(Serialize, Deserialize)]
pub struct Trial {
    /// Users of each cell.
    pub users: u32,
    /// Whether no more ticks were missed than may be.
    pub is_in_time: bool,
    /// What each member counted, in the chain's order.
    pub members: Vec<Outcome>,
}

impl Trial {
    /// What the last member saw.
    pub fn ended(&self) -> Option<&Ended> {
        self.members.last()?.ended.as_ref()
    }

    /// Instants that the trial took: a tick was sent for each but those that the first member skipped.
    pub fn instants(&self) -> u64 {
        self.members.first().map_or(0, |first| first.ticks.saturating_add(first.skipped))
    }

    /// Ticks of which not even the end came to the last member.
    pub fn vanished(&self) -> u64 {
        let ended = self
            .ended()
            .map_or(0, |ended| ended.in_time.saturating_add(ended.late).saturating_add(ended.incomplete));
        self.members.first().map_or(0, |first| first.ticks.saturating_sub(ended))
    }

    /// Instants whose work was not done in time, for whatever reason: late, incomplete, vanished or skipped.
    pub fn missed(&self) -> u64 {
        self.instants().saturating_sub(self.ended().map_or(0, |ended| ended.in_time))
    }

    /// Data frames that one member sent and the next did not get.
    pub fn lost(&self) -> u64 {
        self.members.windows(2).map(|pair| pair[0].sent.saturating_sub(pair[1].received)).sum()
    }
}

impl Run {
    /// The trial with the most users that fitted; the only one if none did.
    pub fn best(&self) -> Option<&Trial> {
        let fitting = self.trials.iter().filter(|trial| trial.is_in_time);
        fitting.max_by_key(|trial| trial.users).or(self.trials.last())
    }
}
