//! `tautline kvm trace`: exits by reason, and where the time went.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use kvm::trace::overhead::{Overhead, Probe};
use kvm::trace::statistics::Statistics;
use kvm::trace::{self, Times, Tracer};
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;

use super::record::Heading;
pub use super::written::Trace;
use crate::Launcher;
use crate::tracing::Made;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-trace/1";
/// The time between two checks of the guest's threads.
const LOOK: Duration = Duration::from_millis(50);

/// Called with the counts so far. It may end the trace.
pub type Live<'a> = &'a mut dyn FnMut(&Tracer) -> ControlFlow<()>;

/// The traced guest, and the duration of the trace.
pub struct Watch<'a> {
    /// The process whose guest is traced.
    pub pid: u32,
    /// How long to trace.
    pub time: Duration,
    /// Shows the user what is being done.
    pub progress: &'a Progress,
    /// Called at every interval, if present.
    pub live: Option<Live<'a>>,
}

/// Traces the exits. If nothing can be traced, KVM's own counts are taken instead. SIGINT ends it early.
///
/// # Errors
/// The kernel refuses the trace and provides no counts either.
pub fn trace(watch: &mut Watch<'_>) -> Result<Trace, Failure> {
    let mut trace = Trace {
        heading: Heading::now(SCHEMA, watch.pid)?,
        method: String::new(),
        seconds: 0.0,
        times: Times::default(),
        overhead: None,
        not_measured: Vec::new(),
        statistics: Vec::new(),
    };
    match trace::tracefs() {
        Ok(tracefs) => by_triggers(&mut trace, &tracefs, watch)?,
        Err(failure) => by_statistics(&mut trace, failure, watch)?,
    }
    Ok(trace)
}

fn by_triggers(trace: &mut Trace, tracefs: &Path, watch: &mut Watch<'_>) -> Result<(), Failure> {
    trace.method = "histogram triggers in tracefs".into();
    let probe = Probe::start();
    let before = probe.exit_ns();
    let Launcher { janitor, .. } = Launcher::new(Vec::new())?;
    let mut made = Made::by(&janitor);
    let (times, elapsed) = count(&mut made, tracefs, trace.heading.pid, watch)?;
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
    watch: &mut Watch<'_>,
) -> Result<(Times, Duration), Failure> {
    let limit = watch.time;
    let instance = made.instance(tracefs)?;
    let mut tracer = Tracer::new(tracefs, &instance, pid)?;
    tracer.steps().into_iter().try_for_each(|step| made.step(step))?;
    let start = Instant::now();
    if watch.live.is_none() {
        watch.progress.doing(format!("tracing the exits of process {pid}; Ctrl-C ends it"));
    }
    while start.elapsed() < limit && !interrupt::is_set() && tracer.see_threads() {
        if let Some(live) = &mut watch.live
            && live(&tracer).is_break()
        {
            break;
        }
        std::thread::sleep(LOOK.min(limit.saturating_sub(start.elapsed())));
    }
    let elapsed = start.elapsed();
    watch.progress.finish();
    Ok((tracer.read()?, elapsed))
}

/// Fills the trace from KVM's own counts, if nothing can be traced.
fn by_statistics(trace: &mut Trace, missing: Failure, watch: &Watch<'_>) -> Result<(), Failure> {
    let (limit, progress, pid) = (watch.time, watch.progress, trace.heading.pid);
    trace.method = "KVM's statistics files in debugfs".into();
    trace.not_measured.push(format!("times, and exits by virtual CPU: {missing}"));
    let mut statistics = Statistics::of(pid)
        .map_err(|failure| Failure { tried: format!("{missing}: {}", failure.tried), ..failure })?;
    progress.doing(format!("counting the exits of process {pid}; Ctrl-C ends it"));
    let start = Instant::now();
    let process = Path::new("/proc").join(pid.to_string());
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
