//! `tautline rfc2544`: packet rates and latencies of any vhost-user switch.
mod back_to_back;
mod bench;
mod diff;
mod frame_loss;
mod gate;
mod job;
mod measure;
mod pages;
mod search;
mod show;
mod tables;

use std::cell::RefCell;

use anyhow::Context;
use linux::interrupt;
use report::gate::Gate;
use traffic::path::{Path, Topology};
use traffic::recorder::Recorder;
use traffic::results::{Run, SCHEMA};
use traffic::rig::TestRig;

use crate::cli;
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};
use job::Job;

/// Runs all sizes.
pub fn run(arguments: &cli::Rfc2544) -> anyhow::Result<Done> {
    let job = Job::read(arguments)?;
    let gate = crate::gate::load(&arguments.reported.limits)?;
    let sink = Sink::open(&arguments.reported.results_to)?;
    output::require_writable(arguments.reported.html.as_deref())?;
    output::catch_interrupts()?;
    let _guard = memory::TruncationGuard::install().context("catching SIGBUS")?;
    if let Some(cpu) = job.cpu {
        linux::cpus::bind(&[cpu]).with_context(|| format!("moving to CPU {cpu}"))?;
    }

    let progress = output::progress();
    progress.doing("plugging in");
    let mut rig = TestRig::new();
    rig.stop_when(interrupt::is_set);
    let topology = match &job.to {
        None => Topology::Loop,
        Some(_) => Topology::Through,
    };
    for (name, spec) in [("--from", Some(&job.from)), ("--to", job.to.as_ref())] {
        let Some(spec) = spec else { continue };
        let port = spec.clone().build().map_err(|error| Usage(error.to_string()))?;
        rig.attach(name, port)?;
    }
    let timeout = arguments.timeout;
    rig.wait_until_up(timeout).map_err(or_interrupted)?;
    let ports = (0..=usize::from(job.to.is_some())).map(|number| rig.describe(number)).collect();
    let mut path = Path::new(rig, topology, job.profile);

    let run = Run {
        schema: SCHEMA.to_owned(),
        tautline: env!("CARGO_PKG_VERSION").to_owned(),
        started: time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?,
        elapsed_s: 0.0,
        complete: false,
        host: ::measure::host_facts::HostFacts::gather(),
        command: std::env::args().collect(),
        ports,
        labels: job.labels(),
        quick: job.is_quick(),
        maximum_trial_ns: job.maximum_trial().as_nanos() as u64,
        latency_trial_ns: job.latency_trial().as_nanos() as u64,
        sizes: Vec::new(),
        unfinished: None,
    };
    let recorder = RefCell::new(Recorder::new(run, sink.json_file().map(Into::into)));
    let ended = job.mixes.iter().try_for_each(|mix| {
        recorder.borrow_mut().begin_size(mix.to_string());
        let size =
            measure::size(&mut path, mix, &job, timeout, &progress, &recorder).map_err(or_interrupted)?;
        // What was found so far outlives whatever comes.
        Ok(recorder.borrow_mut().end_size(size)?)
    });
    let recorder = recorder.into_inner();
    let run = if ended.is_ok() { recorder.finish()? } else { recorder.abandon() };
    progress.finish();
    // Nothing to show: the error is all.
    if run.sizes.is_empty() && ended.is_err() {
        return ended.map(|()| Done::Whole);
    }
    let done = show_run(&run, &sink, arguments.reported.html.as_deref(), gate.as_ref())?;
    // Shown and kept is what was found until then.
    ended?;
    Ok(done)
}

/// Puts out the results of one run, writes the page, evaluates the gate.
pub fn show_run(
    run: &Run,
    sink: &Sink,
    html: Option<&std::path::Path>,
    gate: Option<&Gate>,
) -> anyhow::Result<Done> {
    sink.put(|width, _| show::text(run, width), || Ok(serde_json::to_string(run)?))?;
    if let Some(file) = html {
        output::write_html(file, &pages::page(run))?;
    }
    judge(run, sink, gate)
}

/// Puts out two runs beside each other; the gate holds for the second.
pub fn show_diff(before: &Run, after: &Run, sink: &Sink, gate: Option<&Gate>) -> anyhow::Result<Done> {
    let diff = diff::Diff::new(before, after);
    sink.put(|width, _| diff.text(width), || Ok(serde_json::to_string(&diff)?))?;
    judge(after, sink, gate)
}

fn judge(run: &Run, sink: &Sink, gate: Option<&Gate>) -> anyhow::Result<Done> {
    let outcomes = gate.map(|gate| gate.evaluate_figures(&gate::figures(run))).unwrap_or_default();
    output::print_gate(sink, &outcomes)?;
    Ok(crate::gate::done(&outcomes))
}

/// The error itself, or that the user wanted to end.
fn or_interrupted(error: impl Into<anyhow::Error>) -> anyhow::Error {
    interrupt::check().map_or_else(Into::into, |()| error.into())
}
