//! `tautline compare`: plan, prove the environments, measure in turns, show.

mod cores;
mod cyclictest;
mod disturbed;
mod external;
mod job;
mod kvm_costs;
mod list;
mod network;
mod rounds;
mod run_plan;
mod save;
mod selection;
mod slots;
mod ticks;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use environment::{Agent, Janitor};
use linux::interrupt::{self, Interrupted};
use measure::{Results, SCHEMA};

use crate::cli;
use crate::exit::Done;
use crate::output::{self, Sink};
use crate::{agent, gate, show};
use run_plan::RunPlan;
use slots::EnvironmentSlots;

/// Runs the command.
pub fn run(arguments: &cli::Compare) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.reported.results_to)?;
    let run_plan = RunPlan::from_arguments(arguments)?;
    if arguments.list {
        list::put(&run_plan, &sink)?;
        return Ok(Done::Whole);
    }
    let gate = gate::load(&arguments.reported.limits)?;
    output::require_writable(arguments.reported.html.as_deref())?;
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
        network: run_plan.network.network(),
    };

    let progress = output::progress();
    let mut slots = EnvironmentSlots::prove(&run_plan, &agent, &janitor, &mut results, &progress);
    let saver = save::Saver::new(sink.json_file());
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

    let outcomes = show::results(&results, &sink, arguments.reported.html.as_deref(), gate.as_ref())?;
    output::print_gate(&sink, &outcomes)?;
    saved.context("the table above is whole, the file is not")?;
    output::remark(&format!("raw samples: {} (redraw with `tautline report`)", saver.path().display()));
    if let Some(page) = &arguments.reported.html {
        output::remark(&format!("page with plots: {}", page.display()));
    }
    if interrupted {
        let kept = "what was gathered until then is shown above and kept in the results file";
        return Err(anyhow::Error::new(Interrupted).context(kept));
    }
    if results.trials.is_empty() {
        let absent = results.absences.iter().map(|absence| &absence.reason);
        let failed = results.environments.iter().filter_map(|environment| environment.failure.as_ref());
        let reason = absent.chain(failed).next().map_or(String::new(), |reason| format!(": {reason}"));
        anyhow::bail!("nothing could be measured{reason}; all reasons are above");
    }
    Ok(gate::done(&outcomes))
}

/// The file of this very program: the agent is the same bytes everywhere.
fn own_binary() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("finding the own binary; is /proc mounted?")
}
