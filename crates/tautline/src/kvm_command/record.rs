//! Tracing a machine for a while.

use std::time::{Duration, Instant};

use anyhow::Context;
use environment::Janitor;
use environment::janitor::Leftover;
use kvm::events::{Recorder, Trace};
use linux::interrupt;

use crate::output;

/// A trace of the whole machine, in an instance that goes again.
pub fn record(pid: u32, time: Duration) -> anyhow::Result<Trace> {
    let tracefs = kvm::trace::tracefs()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Janitor::start(&binary)?;
    let instance = tracefs.join("instances").join(format!("tautline-{}", std::process::id()));
    let leftover = Leftover::TracingInstance(instance.clone());
    janitor.made(&leftover);
    std::fs::create_dir(&instance)
        .with_context(|| format!("making the tracing instance {}; run as root", instance.display()))?;
    let traced = Recorder::start(&instance).and_then(|recorder| {
        let start = Instant::now();
        let progress = output::progress();
        progress.doing(format!("tracing process {}; Ctrl-C ends it", pid));
        while start.elapsed() < time && !interrupt::is_set() {
            let left = time.saturating_sub(start.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        progress.finish();
        recorder.stop()
    });
    janitor.remove(&leftover);
    Ok(traced?)
}
