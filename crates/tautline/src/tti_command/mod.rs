//! `tautline tti`: numbered ticks at absolute times, and when each is in user space, environment beside environment.

mod row;
mod table;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use environment::{Agent, Janitor};
use linux::interrupt::{self, Interrupted};
use serde::{Deserialize, Serialize};
use ticks::{receiver, source};
use workload::ticks::Load;

use crate::cli::{Beside, Tti, Way};
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};
use crate::{agent, cpu_list};
use row::Row;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-tti/1";
/// What the published requirement allows from the interrupt to guest user space.
const USUAL_BUDGET: Duration = Duration::from_micros(50);
/// A receiver that hears nothing for so long gives up.
const SILENCE: Duration = Duration::from_secs(5);

/// What is written.
#[derive(Serialize, Deserialize)]
struct Results {
    schema: String,
    tautline: String,
    started: String,
    host: measure::host_facts::HostFacts,
    interval_ns: u64,
    budget_ns: u64,
    /// Of the source, and of the receiver.
    cpus: [usize; 2],
    wait: receiver::Wait,
    rows: Vec<Row>,
}

/// What is the same for all rows.
struct Job {
    source: source::Plan,
    receiver: receiver::Plan,
    receiver_cpu: usize,
}

/// Runs the command.
pub fn run(arguments: &Tti) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let job = job(arguments)?;
    let environments = row::environments(&arguments.environments)?;
    output::catch_interrupts()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Arc::new(Janitor::start(&binary)?);
    let agent = Agent { binary, arguments: vec![agent::ARGUMENT.into()], files: Vec::new() };
    let started = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?;
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
        schema: SCHEMA.into(),
        tautline: env!("CARGO_PKG_VERSION").into(),
        started,
        host: measure::host_facts::HostFacts::gather(),
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

fn job(arguments: &Tti) -> anyhow::Result<Job> {
    let cpus = cpu_list::read("--cpus", arguments.cpus.as_deref())?;
    if arguments.cpus.is_some() && cpus.len() != 2 {
        return Err(Usage("--cpus: name two, of the source and of the receiver".into()).into());
    }
    let (source_cpu, receiver_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    let wait = match arguments.wait {
        Way::Interrupt => receiver::Wait::Interrupt,
        Way::Poll if source_cpu == receiver_cpu => {
            return Err(Usage(
                "--wait poll: both ends share one CPU; give the receiver one of its own".into(),
            )
            .into());
        }
        Way::Poll => receiver::Wait::Poll,
    };
    let budget = arguments.budget.unwrap_or(USUAL_BUDGET);
    let priority = i32::from(arguments.priority);
    let ticks = (arguments.time.as_nanos() / arguments.interval.as_nanos()).max(1) as u64;
    Ok(Job {
        source: source::Plan {
            interval: arguments.interval,
            ticks,
            spin: arguments.spin.min(arguments.interval / 2),
            cpu: Some(source_cpu),
            priority: Some(priority + 1),
        },
        receiver: receiver::Plan {
            wait,
            priority: Some(priority),
            budget_ns: budget.as_nanos() as u64,
            silence_ms: (SILENCE + arguments.interval * 2).as_millis() as u64,
        },
        receiver_cpu,
    })
}

fn load_of(beside: Beside) -> Option<Load> {
    match beside {
        Beside::None => None,
        Beside::Cpu => Some(Load::Cpu),
        Beside::Memory => Some(Load::Memory),
        Beside::Io => Some(Load::Io),
    }
}
