//! `tautline tti`: numbered ticks at absolute times, and when each is in user space, environment beside environment.

mod job;
mod results;
mod row;
mod table;

use std::sync::Arc;

use anyhow::Context;
use environment::{Agent, Janitor};
use linux::interrupt::{self, Interrupted};
use workload::ticks::Load;

use crate::agent;
use crate::cli::{Beside, Tti};
use crate::exit::Done;
use crate::origin::Origin;
use crate::output::{self, Sink};
use job::Job;
use results::Results;
use row::Row;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-tti/1";

/// Runs the command.
pub fn run(arguments: &Tti) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let job = Job::from_arguments(arguments)?;
    let environments = row::environments(&arguments.environments)?;
    output::catch_interrupts()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Arc::new(Janitor::start(&binary)?);
    let agent = Agent { binary, arguments: vec![agent::ARGUMENT.into()], files: Vec::new() };
    let origin = Origin::now(SCHEMA)?;
    let progress = output::progress();
    let mut rows = Vec::new();
    for (name, spec) in &environments {
        for load in &arguments.load {
            if !interrupt::is_set() {
                progress.doing(format!(
                    "{name}, load {}: {} ticks",
                    row::load_name(load_of(*load)),
                    job.source.ticks
                ));
                rows.push(Row::measure(name, spec, load_of(*load), &job, (&agent, &janitor)));
            }
        }
    }
    progress.finish();
    let results = Results {
        origin,
        interval_ns: job.source.interval.as_nanos() as u64,
        budget_ns: job.receiver.budget_ns,
        cpus: [job.source.cpu.unwrap_or_default(), job.receiver_cpu],
        wait: job.receiver.wait,
        rows,
    };
    sink.put(|width, _| table::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    if interrupt::is_set() {
        return Err(anyhow::Error::new(Interrupted).context("what was gathered until then is shown above"));
    }
    if results.rows.iter().all(|row| row.outcome.is_err()) {
        anyhow::bail!("no environment received ticks; the reasons are above");
    }
    let missed = results.rows.iter().filter_map(|row| row.outcome.as_ref().ok());
    let missed: u64 = missed.map(|(_, received)| received.late + received.lost).sum();
    Ok(if arguments.budget.is_some() && missed > 0 { Done::ThresholdExceeded } else { Done::Whole })
}

fn load_of(beside: Beside) -> Option<Load> {
    match beside {
        Beside::None => None,
        Beside::Cpu => Some(Load::Cpu),
        Beside::Memory => Some(Load::Memory),
        Beside::Io => Some(Load::Io),
        Beside::Network => Some(Load::Network),
    }
}
