//! `tautline scenario`: how many users a chain of programs serves in time, environment beside environment.

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

/// Runs all of it; an environment that fails keeps its reason. `remark` is told what ended one later than its first
/// round. SIGINT ends it early.
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
