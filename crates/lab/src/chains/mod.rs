//! `tautline scenario`: finds how many users a chain of programs serves in time, in several environments in turns.

mod chain;
mod job;
mod results;
mod rounds;

use linux::progress::Progress;
use measure::Failure;

use crate::{Launcher, Origin};
pub use job::Job;
pub use results::{Environment, Results, Run, Trial};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-scenario/1";

/// Measures in all environments. An environment that fails is recorded with the reason. `remark` is called with
/// the reason if an environment fails later than its first round. SIGINT ends it early.
///
/// # Errors
/// The causes of [`Origin::now`].
pub fn run(
    job: &Job,
    launcher: &Launcher,
    progress: &Progress,
    remark: &dyn Fn(&str),
) -> Result<Results, Failure> {
    let origin = Origin::now(SCHEMA)?;
    Ok(Results {
        origin,
        environments: rounds::run(job, launcher, progress, remark),
        description: job.description.clone(),
        ticks: job.ticks,
        missed_per_thousand: job.missed_per_thousand,
        is_search: job.users.is_none(),
    })
}
