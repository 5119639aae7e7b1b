//! The results file of a scenario, docs/results-schema.md.

use measure::Failure;
use scenario::Description;
use scenario::chain::{Ended, Outcome};
use serde::{Deserialize, Serialize};

use crate::Origin;
use crate::runner::Attempt;

/// The document that is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Version, start and machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The scenario, as it ran.
    pub description: Description,
    /// The number of ticks of each trial.
    pub ticks: u64,
    /// How many of 1000 ticks may be missed while the users still count as served.
    pub missed_per_thousand: u32,
    /// Whether the run searched for how many users fit.
    pub is_search: bool,
    /// The environments in the order of the command line.
    pub environments: Vec<Environment>,
}

impl Results {
    /// Environments in which at least one search or trial was completed.
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
    /// Whether the members' CPU, or one below it, is emulated.
    pub is_emulated: bool,
    /// The searches of the environment, or why there is none.
    pub outcome: Result<Vec<Run>, Failure>,
}

/// One search, or one trial.
#[derive(Default, Serialize, Deserialize)]
pub struct Run {
    /// The highest number of users that were served in time.
    pub fits: u32,
    /// The trials in the order in which they ran, also the discarded ones.
    pub trials: Vec<Attempt<Trial>>,
}

/// One trial.
#[derive(Serialize, Deserialize)]
pub struct Trial {
    /// Users of each cell.
    pub users: u32,
    /// Whether the number of missed ticks is allowed.
    pub is_in_time: bool,
    /// The counts of each member, in the chain's order.
    pub members: Vec<Outcome>,
}

impl Trial {
    /// The results of the last member.
    pub fn ended(&self) -> Option<&Ended> {
        self.members.last()?.ended.as_ref()
    }

    /// Instants of the trial at which a tick was due: ticks sent, and ticks that the first member skipped.
    pub fn instants(&self) -> u64 {
        self.members.first().map_or(0, |first| first.ticks.saturating_add(first.skipped))
    }

    /// Ticks whose end frame did not reach the last member.
    pub fn vanished(&self) -> u64 {
        let ended = self
            .ended()
            .map_or(0, |ended| ended.in_time.saturating_add(ended.late).saturating_add(ended.incomplete));
        self.members.first().map_or(0, |first| first.ticks.saturating_sub(ended))
    }

    /// Instants whose work was not done in time: ticks that were late, incomplete, vanished or skipped.
    pub fn missed(&self) -> u64 {
        self.instants().saturating_sub(self.ended().map_or(0, |ended| ended.in_time))
    }

    /// Data frames that one member sent and the next did not receive.
    pub fn lost(&self) -> u64 {
        self.members.windows(2).map(|pair| pair[0].sent.saturating_sub(pair[1].received)).sum()
    }
}

impl Run {
    /// The trials that count.
    pub fn counted(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter_map(Attempt::counted)
    }

    /// The trial with the most users that were served in time; if there is none, the only trial.
    pub fn best(&self) -> Option<&Trial> {
        let fitting = self.counted().filter(|trial| trial.is_in_time);
        fitting.max_by_key(|trial| trial.users).or(self.counted().last())
    }
}
