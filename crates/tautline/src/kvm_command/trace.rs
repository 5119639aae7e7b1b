//! `tautline kvm trace`.

mod live;
mod page;
mod table;
mod written;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use environment::Janitor;
use kvm::trace::overhead::{Overhead, Probe};
use kvm::trace::statistics::Statistics;
use kvm::trace::{self, Times, Tracer};
use linux::interrupt;
use measure::Failure;

use crate::cli::KvmTrace;
use crate::exit::{self, Done};
use crate::output::{self, Sink};
use lab::tracing::Made;
use live::Live;
pub use page::show;
use written::Trace;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-trace/1";
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
    let mut trace = Trace {
        schema: SCHEMA.into(),
        tautline: env!("CARGO_PKG_VERSION").into(),
        started,
        host: measure::host_facts::HostFacts::gather(),
        accelerator: environment::vm::kvm_name(),
        emulated: kvm::is_emulated(),
        pid,
        method: String::new(),
        seconds: 0.0,
        times: Times::default(),
        overhead: None,
        not_measured: Vec::new(),
        statistics: Vec::new(),
    };
    match trace::tracefs() {
        Ok(tracefs) => by_triggers(&mut trace, &sink, &tracefs, arguments)?,
        Err(failure) => by_statistics(&mut trace, failure, arguments.time)?,
    }
    sink.put(|_, _| table::text(&trace), || Ok(serde_json::to_string(&trace)?))?;
    exit::unless_interrupted(Done::Whole)
}

fn by_triggers(trace: &mut Trace, sink: &Sink, tracefs: &Path, arguments: &KvmTrace) -> anyhow::Result<()> {
    trace.method = "histogram triggers in tracefs".into();
    let probe = Probe::start();
    let before = probe.exit_ns();
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Janitor::start(&binary)?;
    let mut made = Made::by(&janitor);
    let live = arguments.live.then(|| Live::new(trace.pid, sink));
    let (times, elapsed) = count(&mut made, tracefs, trace.pid, arguments.time, live)?;
    let traced = before.and_then(|before| Ok((before, probe.exit_ns()?)));
    drop(made);
    let overhead = traced
        .and_then(|(before_ns, traced_ns)| Ok(Overhead { before_ns, traced_ns, after_ns: probe.exit_ns()? }));
    match overhead {
        Ok(overhead) => trace.overhead = Some(overhead),
        Err(failure) => trace.not_measured.push(format!("overhead: {failure}")),
    }
    (trace.times, trace.seconds) = (times, elapsed.as_secs_f64());
    Ok(())
}

fn count(
    made: &mut Made,
    tracefs: &Path,
    pid: u32,
    limit: Duration,
    mut live: Option<Live>,
) -> anyhow::Result<(Times, Duration)> {
    let instance = made.instance(tracefs)?;
    let mut tracer = Tracer::new(tracefs, &instance, pid)?;
    tracer.steps().into_iter().try_for_each(|step| made.step(step))?;
    let start = Instant::now();
    let progress = output::progress();
    if live.is_none() {
        progress.doing(format!("tracing the exits of process {pid}; Ctrl-C ends it"));
    }
    while start.elapsed() < limit && !interrupt::is_set() && tracer.see_threads() {
        if let Some(live) = &mut live {
            live.look(&tracer)?;
        }
        std::thread::sleep(LOOK.min(limit.saturating_sub(start.elapsed())));
    }
    let elapsed = start.elapsed();
    progress.finish();
    Ok((tracer.read()?, elapsed))
}

/// What KVM counts by itself, where nothing can be traced.
fn by_statistics(trace: &mut Trace, missing: Failure, limit: Duration) -> anyhow::Result<()> {
    trace.method = "KVM's statistics files in debugfs".into();
    trace.not_measured.push(format!("times, and exits by virtual CPU: {missing}"));
    let mut statistics = Statistics::of(trace.pid).with_context(|| missing.to_string())?;
    let progress = output::progress();
    progress.doing(format!("counting the exits of process {}; Ctrl-C ends it", trace.pid));
    let start = Instant::now();
    let process = Path::new("/proc").join(trace.pid.to_string());
    while start.elapsed() < limit && !interrupt::is_set() && process.exists() {
        statistics.look();
        std::thread::sleep(LOOK.min(limit.saturating_sub(start.elapsed())));
    }
    statistics.look();
    trace.statistics = statistics.counts();
    trace.seconds = start.elapsed().as_secs_f64();
    progress.finish();
    Ok(())
}
