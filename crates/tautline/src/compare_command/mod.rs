//! `tautline compare`: reads the arguments, has `lab` measure, and shows the results.

mod list;
mod save;

use anyhow::Context;
use lab::compare::{Options, PlanError, RunPlan};
use linux::interrupt::{self, Interrupted};

use crate::exit::{Done, Usage};
use crate::output::{self, Sink};
use crate::show::{self, Shown};
use crate::{cli, cpu_list, gate};

/// Runs the command.
pub fn run(arguments: &cli::Compare) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.reported.results_to)?;
    let run_plan = RunPlan::new(&options(arguments)?).map_err(plan_error)?;
    if arguments.list {
        list::put(&run_plan, &sink)?;
        return Ok(Done::Whole);
    }
    let gate = gate::load(&arguments.reported.limits)?;
    output::require_writable(arguments.reported.html.as_deref())?;
    output::catch_interrupts()?;

    let progress = output::progress();
    let saver = save::Saver::new(sink.json_file());
    // A failure to save here is not reported: the results are saved again at the end, and a failure there is.
    let results = lab::compare::run(&run_plan, &progress, |results| {
        drop(saver.save(results));
        if let Some(words) = report::screen::so_far(results) {
            progress.remark(&words);
        }
    })?;
    let saved = saver.save(&results);
    progress.finish();

    let shown = if arguments.tables { Shown::Tables } else { Shown::Screen };
    let html = arguments.reported.html.as_deref();
    let outcomes = show::results(&results, shown, &sink, html, gate.as_ref())?;
    output::print_gate(&sink, &outcomes)?;
    saved.context("what is above is whole, the file is not")?;
    let file = saver.path().display();
    output::remark(&format!("all tables: `tautline report {file}`, which holds the raw samples"));
    if let Some(page) = html {
        output::remark(&format!("page with plots: {}", page.display()));
    }
    if interrupt::is_set() {
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

fn options(arguments: &cli::Compare) -> anyhow::Result<Options> {
    Ok(Options {
        quick: arguments.quick,
        only: arguments.only.clone(),
        environments: arguments.environments.clone(),
        cpus: cpu_list::read("--cpus", arguments.cpus.as_deref())?,
        verify_payload: arguments.verify_payload,
        card: arguments.card(),
        blocks: arguments.blocks,
        rounds: arguments.rounds,
        trial: arguments.trial,
        wakeup_trial: arguments.wakeup_trial,
        timeout: arguments.timeout,
        workloads: arguments.workloads.clone(),
        cyclictest: arguments.cyclictest,
    })
}

fn plan_error(error: PlanError) -> anyhow::Error {
    if error.is_usage() { Usage(error.to_string()).into() } else { error.into() }
}
