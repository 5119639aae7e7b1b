//! `tautline tti`: numbered ticks at absolute times, and when each is in user space, environment beside environment.

mod job;
mod measure;
mod page;
mod pv_sched;
mod pv_sched_table;
mod results;
mod row;
mod stage_table;
mod stages;
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
pub use job::Job;
pub use measure::Receiver;
pub use page::show;
use pv_sched::{PvSched, Turns};
use results::Results;
use row::Row;
pub use row::load_name;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-tti/1";

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
    let mut shared = Vec::new();
    for (name, spec) in &environments {
        if arguments.pv_sched {
            progress.doing(format!(
                "{name}: {} rounds of {} ticks, three ways",
                arguments.rounds, job.source.ticks
            ));
            let load = arguments.load.iter().find_map(|load| load_of(*load));
            let turns = Turns { load, job: &job, rounds: arguments.rounds, places: (&agent, &janitor) };
            shared.push(PvSched::measure(name, spec, &turns));
            continue;
        }
        let mut receiver = None;
        for load in arguments.load.iter().map(|load| load_of(*load)) {
            if interrupt::is_set() {
                break;
            }
            let load_name = row::load_name(load);
            progress.doing(format!("{name}, load {load_name}: {} ticks", job.source.ticks));
            let outcome = match &mut receiver {
                Some(receiver) => Ok(receiver),
                None => Receiver::start("tti", name, spec, job.receiver_cpu, (&agent, &janitor))
                    .map(|started| receiver.insert(started)),
            };
            let outcome = outcome.and_then(|receiver| receiver.measure(load, &job));
            if outcome.is_err() {
                // The next load gets a new one.
                receiver = None;
            }
            rows.push(Row { environment: name.clone(), load, outcome });
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
        pv_sched: shared,
    };
    sink.put(|width, _| table::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    if interrupt::is_set() {
        return Err(anyhow::Error::new(Interrupted).context("what was gathered until then is shown above"));
    }
    let is_any = results.rows.iter().any(|row| row.outcome.is_ok())
        || results.pv_sched.iter().any(|shared| shared.outcome.is_ok());
    if !is_any {
        anyhow::bail!("no environment received ticks; the reasons are above");
    }
    let missed = results.rows.iter().filter_map(|row| row.outcome.as_ref().ok());
    let missed: u64 = missed.map(|outcome| outcome.received.late + outcome.received.lost).sum();
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
