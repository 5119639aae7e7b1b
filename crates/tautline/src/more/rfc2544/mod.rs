//! `tautline rfc2544`: packet rates and latencies of any vhost-user switch.
mod job;

use std::path::{Path, PathBuf};

use anyhow::Context;
use report::gate::Gate;
use traffic::results::{Run, SCHEMA};
use traffic::rfc2544::{Begun, RunError};

use crate::exit::{Done, Usage};
use crate::output::{self, Sink};
use crate::{cli, cpu_list, gate, show};

/// Runs all sizes.
pub fn run(arguments: &cli::Rfc2544) -> anyhow::Result<Done> {
    let cpus = arguments.cpu.as_deref().map(|list| cpu_list::read("--cpu", Some(list))).transpose()?;
    let job = job::read(arguments)?;
    let gate = gate::load(&arguments.reported.limits)?;
    let sink = Sink::open(&arguments.reported.results_to)?;
    output::require_writable(arguments.reported.html.as_deref())?;
    output::catch_interrupts()?;
    let _guard = memory::TruncationGuard::install().context("catching SIGBUS")?;
    if let Some(cpu) = cpus.and_then(|cpus| cpus.first().copied()) {
        linux::cpus::bind(&[cpu]).with_context(|| format!("moving to CPU {cpu}"))?;
    }

    let progress = output::progress();
    progress.doing("plugging in");
    let mut ports = Vec::new();
    for (name, spec) in [("--from", Some(&job.from)), ("--to", job.to.as_ref())] {
        let Some(spec) = spec else { continue };
        ports.push((name, spec.clone().build().map_err(|error| Usage(error.to_string()))?));
    }
    let begun = Begun { started: lab::now()?, command: std::env::args().collect() };
    let file = sink.json_file().map(Into::into);
    let (run, ended) =
        traffic::rfc2544::run(&job, ports, begun, file, &|what| progress.doing(what)).map_err(early)?;
    progress.finish();
    // There is nothing to show except the error.
    if run.sizes.is_empty() && ended.is_err() {
        return ended.map(|()| Done::Whole).map_err(early);
    }
    let done = show_run(&run, &sink, arguments.reported.html.as_deref(), gate.as_ref())?;
    // The results so far are shown and kept.
    ended.map_err(early)?;
    Ok(done)
}

/// Shows one run, or two beside each other. None, if no file is of `rfc2544`.
pub fn report(
    files: &[PathBuf],
    kinds: &[Option<String>],
    sink: &Sink,
    html: Option<&Path>,
    gate: Option<&Gate>,
) -> anyhow::Result<Option<Done>> {
    let are_rfc2544: Vec<bool> = kinds.iter().map(|kind| show::is_of(kind, SCHEMA)).collect();
    match are_rfc2544[..] {
        [true] | [true, true] => of_rfc2544(files, sink, html, gate).map(Some),
        _ if !are_rfc2544.contains(&true) => Ok(None),
        _ => {
            let what =
                "files of `rfc2544` are compared in pairs, and with none of `compare`; give two of `rfc2544`";
            Err(Usage(what.to_owned()).into())
        }
    }
}

fn of_rfc2544(
    files: &[PathBuf],
    sink: &Sink,
    html: Option<&Path>,
    gate: Option<&Gate>,
) -> anyhow::Result<Done> {
    let runs = files.iter().map(|file| Run::load(file)).collect::<Result<Vec<_>, _>>()?;
    match &runs[..] {
        [before, after] if html.is_none() => show_diff(before, after, sink, gate),
        [run] => show_run(run, sink, html, gate),
        _ => {
            Err(Usage("--html draws one run of `rfc2544`; give one file, or leave --html out".into()).into())
        }
    }
}

/// Prints the results of one run, writes the page, evaluates the gate.
fn show_run(run: &Run, sink: &Sink, html: Option<&Path>, gate: Option<&Gate>) -> anyhow::Result<Done> {
    sink.put(|width, _| tables::rfc2544::text(run, width), || Ok(serde_json::to_string(run)?))?;
    if let Some(file) = html {
        output::write_html(file, &tables::rfc2544::page(run))?;
    }
    judge(run, sink, gate)
}

/// Prints two runs beside each other; the gate judges the second.
fn show_diff(before: &Run, after: &Run, sink: &Sink, gate: Option<&Gate>) -> anyhow::Result<Done> {
    let diff = tables::rfc2544::Diff::new(before, after);
    sink.put(|width, _| diff.text(width), || Ok(serde_json::to_string(&diff)?))?;
    judge(after, sink, gate)
}

fn judge(run: &Run, sink: &Sink, gate: Option<&Gate>) -> anyhow::Result<Done> {
    let outcomes = gate.map(|gate| gate.evaluate_figures(&tables::rfc2544::figures(run))).unwrap_or_default();
    output::print_gate(sink, &outcomes)?;
    Ok(gate::done(&outcomes))
}

/// Why it ended early; an interrupt has its own exit code.
fn early(error: RunError) -> anyhow::Error {
    match error {
        RunError::Interrupted(interrupted) => interrupted.into(),
        error => error.into(),
    }
}
