//! Records a trace of the machine.

use std::time::{Duration, Instant};

use environment::janitor::Leftover;
use kvm::events::{Recorder, Selection, Trace};
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use serde::{Deserialize, Serialize};

use crate::{Launcher, Origin};

/// The fields at the beginning of a results file about a recorded trace.
#[derive(Serialize, Deserialize)]
pub struct Heading {
    /// Version, start and machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The accelerator that runs guests on this machine, by its name in results.
    pub accelerator: String,
    /// Whether the CPU is emulated: times then show nothing about speed.
    #[serde(default)]
    pub emulated: bool,
    /// The process whose guest was traced.
    pub pid: u32,
}

impl Heading {
    /// The heading of a trace that begins now.
    ///
    /// # Errors
    /// The causes of [`Origin::now`].
    pub fn now(schema: &str, pid: u32) -> Result<Self, Failure> {
        Ok(Heading {
            origin: Origin::now(schema)?,
            accelerator: environment::vm::kvm_name(),
            emulated: kvm::is_emulated(),
            pid,
        })
    }
}

/// Records a trace of the whole machine in a tracing instance, which is removed afterwards.
pub(super) fn record(pid: u32, time: Duration, progress: &Progress) -> Result<Trace, Failure> {
    let tracefs = kvm::trace::tracefs()?;
    let Launcher { janitor, .. } = Launcher::new(Vec::new())?;
    let instance = tracefs.join("instances").join(format!("tautline-{}", std::process::id()));
    let leftover = Leftover::TracingInstance(instance.clone());
    janitor.made(&leftover);
    std::fs::create_dir(&instance).map_err(|error| {
        Failure::new(format!("making the tracing instance {}", instance.display()), error, "run as root")
    })?;
    let traced = Recorder::start(&instance, &Selection::PATHS).and_then(|recorder| {
        let start = Instant::now();
        progress.doing(format!("tracing process {}; Ctrl-C ends it", pid));
        while start.elapsed() < time && !interrupt::is_set() {
            let left = time.saturating_sub(start.elapsed());
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        progress.finish();
        recorder.stop()
    });
    janitor.remove(&leftover);
    traced
}
