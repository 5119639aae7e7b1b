//! `tautline kvm trace`.

mod table;
mod written;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use environment::Janitor;
use kvm::trace::{self, Times, Tracer};
use linux::interrupt;

use crate::cli::KvmTrace;
use crate::exit::Done;
use crate::output::{self, Sink};
use crate::tracing::Made;
use written::Trace;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-kvm-trace/1";
/// Between two looks at the guest's threads.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the command.
pub fn run(arguments: &KvmTrace) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let pid = match (arguments.pid, &arguments.domain) {
        (Some(pid), _) => pid,
        (None, name) => trace::pid_of_domain(name.as_deref().unwrap_or_default())?,
    };
    let started = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?;
    let tracefs = trace::tracefs()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Janitor::start(&binary)?;
    let mut made = Made::by(&janitor);
    let (times, elapsed) = count(&mut made, &tracefs, pid, arguments.time)?;
    drop(made);
    let trace = Trace {
        schema: SCHEMA,
        tautline: env!("CARGO_PKG_VERSION"),
        started,
        host: measure::host_facts::HostFacts::gather(),
        accelerator: environment::vm::kvm_name(),
        pid,
        method: "histogram triggers in tracefs",
        seconds: elapsed.as_secs_f64(),
        times,
    };
    sink.put(|_, _| table::text(&trace), || Ok(serde_json::to_string(&trace)?))?;
    Ok(Done::Whole)
}

fn count(made: &mut Made, tracefs: &Path, pid: u32, limit: Duration) -> anyhow::Result<(Times, Duration)> {
    let instance = made.instance(tracefs)?;
    let mut tracer = Tracer::new(tracefs, &instance, pid)?;
    tracer.steps().into_iter().try_for_each(|step| made.step(step))?;
    let start = Instant::now();
    let progress = output::progress();
    progress.doing(format!("tracing the exits of process {pid}; Ctrl-C ends it"));
    while start.elapsed() < limit && !interrupt::is_set() && tracer.see_threads() {
        std::thread::sleep(LOOK.min(limit.saturating_sub(start.elapsed())));
    }
    let elapsed = start.elapsed();
    progress.finish();
    Ok((tracer.read()?, elapsed))
}
