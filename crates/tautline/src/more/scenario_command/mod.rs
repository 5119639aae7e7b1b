//! `tautline scenario`: how many users a chain of programs serves in time, environment beside environment.

mod job;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use lab::{Launcher, chains};
use linux::interrupt::{self, Interrupted};
use scenario::description::BUILT_IN;

use crate::cli::Scenario;
use crate::exit::Done;
use crate::output::{self, Sink};

pub use lab::chains::SCHEMA;

/// Runs the command.
pub fn run(arguments: &Scenario) -> anyhow::Result<Done> {
    if arguments.list {
        let texts = BUILT_IN.map(|(name, text)| format!("# --- {name}.toml\n{text}"));
        std::io::stdout().write_all(texts.join("\n").as_bytes()).context("writing the scenarios")?;
        return Ok(Done::Whole);
    }
    let sink = Sink::open(&arguments.results_to)?;
    let job = job::read(arguments)?;
    output::catch_interrupts()?;
    let launcher = Launcher::new(Vec::new())?;
    let progress = output::progress();
    let results = chains::run(&job, &launcher, &progress, &output::remark)?;
    progress.finish();
    sink.put(|width, _| tables::scenario::text(&results, width), || Ok(serde_json::to_string(&results)?))?;
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
        .all(|runs| runs.iter().all(|run| run.counted().all(|trial| trial.is_in_time)));
    Ok(if results.is_search || all_in_time { Done::Whole } else { Done::ThresholdExceeded })
}

/// Draws a file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    crate::show::redraw(file, "scenario", sink, html, tables::scenario::text, tables::scenario::page)
}
