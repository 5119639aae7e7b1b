//! `tautline rfc2544`: packet rates and latencies of any vhost-user switch.
mod back_to_back;
mod frame_loss;
mod gate;
mod job;
mod measure;
mod pages;
mod search;
mod show;
mod tables;

use std::time::Duration;

use anyhow::Context;
use linux::progress::Progress;
use traffic::path::{Path, Topology};
use traffic::results::{Run, SCHEMA};
use traffic::rig::TestRig;

use crate::cli;
use crate::exit::{Done, Usage};
use crate::output;
use gate::Gate;
use job::Job;

/// Runs all sizes.
pub fn run(arguments: &cli::Rfc2544) -> anyhow::Result<Done> {
    let job = Job::read(arguments)?;
    let gate = arguments.gate.as_deref().map(Gate::read).transpose()?;
    output::require_writable(arguments.json.as_deref())?;
    output::require_writable(arguments.html.as_deref())?;
    output::catch_interrupts()?;
    let _guard = memory::TruncationGuard::install().context("catching SIGBUS")?;
    if let Some(cpu) = job.cpu {
        traffic::bound::pin(cpu).with_context(|| format!("moving to CPU {cpu}"))?;
    }

    let progress = Progress::new();
    progress.doing("plugging in");
    let mut rig = TestRig::new();
    let topology = match &job.to {
        None => Topology::Loop,
        Some(_) => Topology::Through,
    };
    for (name, spec) in [("--from", Some(&job.from)), ("--to", job.to.as_ref())] {
        let Some(spec) = spec else { continue };
        let port = spec.clone().build().map_err(|error| Usage(error.to_string()))?;
        rig.plug(name, port)?;
    }
    let patience = Duration::from_secs(arguments.patience);
    rig.wait_until_up(patience)?;
    let ports = (0..=usize::from(job.to.is_some())).map(|number| rig.describe(number)).collect();
    let mut path = Path::new(rig, topology, job.profile);

    let mut run = Run {
        schema: SCHEMA,
        started: time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?,
        host: ::measure::host_facts::HostFacts::gather(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        ports,
        labels: job.labels(),
        quick: job.is_quick(),
        maximum_trial_ns: job.maximum_trial().as_nanos() as u64,
        latency_trial_ns: job.latency_trial().as_nanos() as u64,
        sizes: Vec::new(),
    };
    for mix in &job.mixes {
        run.sizes.push(measure::size(&mut path, mix, &job, patience, &progress)?);
        // What was found so far outlives whatever comes.
        save(&run, arguments)?;
    }
    progress.finish();
    output::print(&show::text(&run, output::width()))?;
    if let Some(file) = &arguments.html {
        std::fs::write(file, show::page(&run)).with_context(|| format!("writing {}", file.display()))?;
    }
    let missed = gate.map_or_else(Vec::new, |gate| gate.missed(&run));
    for miss in &missed {
        output::print(&format!("gate: threshold exceeded: {miss}\n"))?;
    }
    Ok(if missed.is_empty() { Done::Whole } else { Done::GateMissed })
}

fn save(run: &Run, arguments: &cli::Rfc2544) -> anyhow::Result<()> {
    let Some(file) = &arguments.json else { return Ok(()) };
    Ok(::measure::save_json(run, file)?)
}
