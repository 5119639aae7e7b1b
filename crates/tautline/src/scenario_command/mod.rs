//! `tautline scenario`: how many users a chain of programs serves in time, environment beside environment.

mod chain;
mod job;
mod page;
mod results;
mod rounds;
mod table;
mod users;
mod view;

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use environment::{Agent, Janitor};
use linux::interrupt::{self, Interrupted};
use scenario::description::BUILT_IN;

use crate::cli::Scenario;
use crate::exit::Done;
use crate::output::{self, Sink};
use job::Job;
use lab::Origin;
pub use page::show;
use results::Results;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-scenario/1";

/// Runs the command.
pub fn run(arguments: &Scenario) -> anyhow::Result<Done> {
    if arguments.list {
        let texts = BUILT_IN.map(|(name, text)| format!("# --- {name}.toml\n{text}"));
        std::io::stdout().write_all(texts.join("\n").as_bytes()).context("writing the scenarios")?;
        return Ok(Done::Whole);
    }
    let sink = Sink::open(&arguments.results_to)?;
    let job = Job::from_arguments(arguments)?;
    output::catch_interrupts()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Arc::new(Janitor::start(&binary)?);
    let agent = Agent { binary, arguments: vec![workload::agent::ARGUMENT.into()], files: Vec::new() };
    let origin = Origin::now(SCHEMA)?;
    let environments = rounds::run(&job, &agent, &janitor);
    let results = Results {
        origin,
        description: job.description,
        ticks: job.ticks,
        missed_per_thousand: job.missed_per_thousand,
        is_search: job.users.is_none(),
        environments,
    };
    sink.put(|width, _| table::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    if interrupt::is_set() {
        return Err(anyhow::Error::new(Interrupted).context("what was gathered until then is shown above"));
    }
    if results.environments.iter().all(|environment| environment.outcome.is_err()) {
        anyhow::bail!("the scenario ran in no environment; the reasons are above");
    }
    let all_in_time = results
        .environments
        .iter()
        .flat_map(|environment| environment.outcome.iter())
        .all(|runs| runs.iter().all(|run| run.trials.iter().all(|trial| trial.is_in_time)));
    Ok(if results.is_search || all_in_time { Done::Whole } else { Done::ThresholdExceeded })
}
