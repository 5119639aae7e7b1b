//! Tracing a machine for a while.

use std::time::{Duration, Instant};

use anyhow::Context;
use environment::Janitor;
use environment::janitor::Leftover;
use kvm::events::{Recorder, Selection, Trace};
use linux::interrupt;
use measure::host_facts::HostFacts;
use serde::{Deserialize, Serialize};
use time::format_description::well_known::Rfc3339;

use crate::output;

/// What a file of a recorded trace begins with.
#[derive(Serialize, Deserialize)]
pub struct Heading {
    schema: String,
    tautline: String,
    started: String,
    host: HostFacts,
    /// What runs guests here, by its name in results.
    pub accelerator: String,
    /// Whether times say nothing.
    pub emulated: bool,
    /// Whose guest was traced.
    pub pid: u32,
}

impl Heading {
    /// Of what begins now.
    pub fn now(schema: &str, pid: u32) -> anyhow::Result<Self> {
        Ok(Heading {
            schema: schema.into(),
            tautline: env!("CARGO_PKG_VERSION").into(),
            started: time::OffsetDateTime::now_utc().format(&Rfc3339)?,
            host: HostFacts::gather(),
            accelerator: environment::vm::kvm_name(),
            emulated: kvm::is_emulated(),
            pid,
        })
    }
}

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
    let traced = Recorder::start(&instance, &Selection::PATHS).and_then(|recorder| {
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
