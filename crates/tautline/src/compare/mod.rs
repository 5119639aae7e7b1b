//! `tautline compare`: plan, prove the environments, measure in turns, show.

mod cores;
mod cross_check;
mod external;
mod job;
mod rounds;
mod run_plan;
mod save;
mod selection;
mod slots;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use environment::{Agent, Janitor};
use linux::interrupt;
use linux::progress::Progress;
use measure::{Results, SCHEMA};

use crate::cli;
use crate::exit::Done;
use crate::{agent, gate, output};
use run_plan::RunPlan;
use slots::EnvironmentSlots;

/// Runs the command.
pub fn run(arguments: &cli::Compare) -> anyhow::Result<Done> {
    let run_plan = RunPlan::from_arguments(arguments)?;
    let gate = arguments.gate.as_deref().map(gate::load).transpose()?;
    output::require_writable(arguments.json.as_deref())?;
    output::require_writable(arguments.html.as_deref())?;
    output::catch_interrupts()?;

    let agent = Agent {
        binary: own_binary()?,
        arguments: vec![agent::ARGUMENT.into()],
        files: run_plan.externals.iter().flat_map(|external| external.files.clone()).collect(),
    };
    let janitor = Arc::new(Janitor::start(&agent.binary)?);
    let began = Instant::now();
    let mut results = Results {
        schema: SCHEMA.into(),
        tautline: env!("CARGO_PKG_VERSION").into(),
        started: time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?,
        elapsed_s: 0.0,
        complete: false,
        command: std::env::args().collect(),
        host: measure::host_facts::HostFacts::gather(),
        plan: run_plan.plan.clone(),
        environments: Vec::new(),
        metrics: run_plan.specs(),
        absences: Vec::new(),
        trials: Vec::new(),
    };

    let progress = Progress::new();
    let mut slots = EnvironmentSlots::prove(&run_plan, &agent, &janitor, &mut results, &progress);
    let saver = save::Saver::new(arguments.json.clone());
    rounds::measure(&run_plan, &mut slots, &mut results, &progress, |results| {
        results.elapsed_s = began.elapsed().as_secs_f64();
        // What fails here is tried again, and told, at the end.
        let _ = saver.save(results);
    });
    drop(slots);
    drop(janitor);
    let interrupted = interrupt::is_set();
    results.complete = !interrupted;
    results.elapsed_s = began.elapsed().as_secs_f64();
    let saved = saver.save(&results);
    progress.finish();

    let outcomes = output::show(&results, arguments.html.as_deref(), gate.as_ref())?;
    saved.context("the table above is whole, the file is not")?;
    output::say_where(saver.path(), arguments.html.as_deref());
    if interrupted {
        anyhow::bail!(
            "interrupted: what was gathered until then is shown above and kept in the results file"
        );
    }
    if results.trials.is_empty() {
        anyhow::bail!("nothing could be measured; the reasons are above");
    }
    Ok(gate::done(&outcomes))
}

/// The file of this very program: the agent is the same bytes everywhere.
fn own_binary() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("finding the own binary; is /proc mounted?")
}
