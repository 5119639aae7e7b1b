//! Counts and times the exits of a running guest in the kernel: histogram triggers
//! (Documentation/trace/histogram.rst) in a separate tracing instance. No event leaves the kernel, so none is lost in
//! a buffer. Events that find no room in a histogram are counted.

mod domain;
mod format;
mod histogram;
pub mod overhead;
pub mod statistics;
mod steps;
mod threads;
mod times;

use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;

pub use domain::pid_of_domain;
pub use format::{Extension, Reasons};
pub use steps::Step;
pub use times::{Reason, Times, Vcpu};

use histogram::Histograms;
use steps::Events;
use threads::Threads;
use times::Sums;

const EVENT: &str = "events/kvm/kvm_exit";

/// Returns the folder of a mounted tracefs that has the tracepoint kvm:kvm_exit.
///
/// # Errors
/// tracefs is not mounted or may not be read, or the kernel has no tracepoint kvm:kvm_exit.
pub fn tracefs() -> Result<PathBuf, Failure> {
    let tried = "looking for the tracepoint kvm:kvm_exit in tracefs";
    let mounts = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let found = mounts.into_iter().find(|mount| mount.join("events").is_dir()).ok_or_else(|| {
        let remedy = "run as root; mount -t tracefs tracefs /sys/kernel/tracing";
        Failure::new(tried, "tracefs is not mounted, or may not be read", remedy)
    })?;
    match found.join(EVENT).is_dir() {
        true => Ok(found),
        false => Err(Failure::new(
            tried,
            "this kernel does not have it",
            "load kvm_intel or kvm_amd; boot an Arm host at EL2",
        )),
    }
}

/// Reads the kernel's sums for one process's guests.
pub struct Tracer {
    tracefs: PathBuf,
    instance: PathBuf,
    events: Events,
    reasons: Reasons,
    threads: Threads,
}

impl Tracer {
    /// Prepares a tracer in a tracing instance, a folder of tracefs that the caller has made and removes. The kernel
    /// counts once the caller has carried out [`Tracer::steps`].
    ///
    /// # Errors
    /// There is no process of this id, the format of kvm:kvm_exit cannot be read, or it lacks the reason of an exit.
    pub fn new(tracefs: &Path, instance: &Path, pid: u32) -> Result<Self, Failure> {
        let threads = Threads::of(pid)?;
        let path = instance.join(EVENT).join("format");
        let format = fs::read_to_string(&path)
            .map_err(|error| Failure::new(format!("reading {}", path.display()), error, "run as root"))?;
        let reasons = Reasons::parse(&format, Extension::of_host()).ok_or_else(|| {
            let answer = "there is no exit_reason and vcpu_id, nor ret and esr_ec";
            let remedy = "trace with a kernel of Linux 5.15 or later";
            Failure::new("reading the fields of kvm:kvm_exit", answer, remedy)
        })?;
        let events = Events::of(std::process::id());
        Ok(Self { tracefs: tracefs.into(), instance: instance.into(), events, reasons, threads })
    }

    /// The lines to write, in this order.
    pub fn steps(&self) -> Vec<Step> {
        self.events.steps(self.reasons.extension, &self.tracefs, &self.instance)
    }

    /// Updates the process's threads. Must be called from time to time. Returns whether the process still runs.
    pub fn see_threads(&mut self) -> bool {
        self.threads.look()
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// A required histogram cannot be read: a step was not carried out, or the instance was removed.
    pub fn read(&self) -> Result<Times, Failure> {
        let read = |path: PathBuf| match fs::read_to_string(&path) {
            Ok(text) => Ok(Histograms::parse(&text)),
            Err(error) => Err(Failure::new(format!("reading {}", path.display()), error, "run as root")),
        };
        let interval = |name| read(self.events.interval(&self.instance, name));
        let event = |name: &str| read(self.instance.join("events/kvm").join(name).join("hist"));
        let probe = |name| read(self.events.probe(&self.instance, name)).ok();
        let sums = Sums {
            exits: event("kvm_exit")?,
            guest: interval("guest")?,
            outside: interval("outside")?,
            user: interval("user")?,
            halted: event("kvm_vcpu_wakeup")?,
            injections: event("kvm_inj_virq").ok(),
            ioeventfds: probe("ioeventfd"),
            irqfds: probe("irqfd"),
        };
        Ok(sums.times(&self.reasons, &self.threads))
    }
}
