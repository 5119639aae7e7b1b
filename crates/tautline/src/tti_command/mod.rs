//! `tautline tti`: sends numbered ticks at absolute times and measures when each reaches user space, for several
//! environments in turns.

mod plan;

use std::path::Path;

use lab::Launcher;
use linux::interrupt::{self, Interrupted};
use tables::tti;

use crate::cli::Tti;
use crate::exit::Done;
use crate::output::{self, Sink};

/// Draws a file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    crate::show::redraw(file, "tti", sink, html, tti::text, tti::page)
}

/// Runs the command.
pub fn run(arguments: &Tti) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let plan = plan::read(arguments)?;
    output::catch_interrupts()?;
    let launcher = Launcher::new(Vec::new())?;
    let progress = output::progress();
    let results = lab::tti::run(&plan, &launcher, &progress)?;
    progress.finish();
    drop(launcher);
    sink.put(|width, _| tti::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
    if interrupt::is_set() {
        return Err(anyhow::Error::new(Interrupted).context("what was gathered until then is shown above"));
    }
    let is_any = results.rows.iter().any(|row| row.outcome.is_ok())
        || results.pv_sched.iter().any(|shared| shared.outcome.is_ok());
    if !is_any {
        anyhow::bail!("no environment received ticks; the reasons are above");
    }
    let missed = results.rows.iter().filter_map(|row| row.found().ok());
    let missed: u64 = missed.map(|outcome| outcome.received.late + outcome.received.lost).sum();
    Ok(if arguments.budget.is_some() && missed > 0 { Done::ThresholdExceeded } else { Done::Whole })
}
