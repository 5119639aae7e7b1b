//! Exits of a running guest, counted by the kernel: a histogram trigger (Documentation/trace/histogram.rst) on the
//! tracepoint `kvm:kvm_exit`, in a tracing instance of its own. No event leaves the kernel, so none is lost in a
//! buffer; what the histogram has no room for, it counts.

mod format;
mod histogram;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;
use serde::{Deserialize, Serialize};

use format::{Extension, Reasons};
use histogram::Histogram;

const EVENT: &str = "events/kvm/kvm_exit";

/// Where tracefs is mounted, with the tracepoint in it.
pub fn tracefs() -> Result<PathBuf, Failure> {
    let tried = "looking for the tracepoint kvm:kvm_exit in tracefs";
    let mounts = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let found = mounts.into_iter().find(|mount| mount.join("events").is_dir()).ok_or_else(|| {
        let remedy = "run as root; mount -t tracefs tracefs /sys/kernel/tracing";
        Failure::new(tried, "tracefs is not mounted, or may not be read", remedy)
    })?;
    match found.join(EVENT).is_dir() {
        true => Ok(found),
        false => Err(Failure::new(tried, "this kernel does not have it", "load kvm_intel or kvm_amd")),
    }
}

/// How often a virtual CPU left its guest for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitCount {
    /// The virtual CPU's number.
    pub vcpu: u64,
    /// The reason's name, or its number where the kernel has no name for it.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exits {
    /// By virtual CPU, the most frequent reason first.
    pub counts: Vec<ExitCount>,
    /// Exits, of any guest of this machine, that the histogram had no room for.
    pub dropped: u64,
}

/// Counts exits of one process's guests while it exists.
pub struct Counter {
    histogram: PathBuf,
    reasons: Reasons,
    task: PathBuf,
    /// Every thread that the process was seen to have.
    threads: BTreeSet<u64>,
}

impl Counter {
    /// Starts to count in a tracing instance, a folder of tracefs that the caller has made and removes.
    pub fn start(instance: &Path, pid: u32) -> Result<Self, Failure> {
        let event = instance.join(EVENT);
        let read = |name: &str| {
            let path = event.join(name);
            fs::read_to_string(&path)
                .map_err(|error| Failure::new(format!("reading {}", path.display()), error, "run as root"))
        };
        let reasons = Reasons::parse(&read("format")?, Extension::of_host()).ok_or_else(|| {
            let remedy = "trace on an x86 host; other architectures are not known yet";
            Failure::new("reading the fields of kvm:kvm_exit", "there is no exit_reason and vcpu_id", remedy)
        })?;
        let trigger = event.join("trigger");
        fs::write(&trigger, format!("hist:keys={}:size=16384", histogram::KEYS.join(","))).map_err(
            |error| {
                let remedy = "use a kernel with CONFIG_HIST_TRIGGERS, as distributions have it";
                Failure::new(format!("setting a histogram in {}", trigger.display()), error, remedy)
            },
        )?;
        let task = Path::new("/proc").join(pid.to_string()).join("task");
        let mut counter = Self { histogram: event.join("hist"), reasons, task, threads: BTreeSet::new() };
        match counter.see_threads() {
            true => Ok(counter),
            false => {
                Err(Failure::new(format!("tracing process {pid}"), "there is none", "name a running one"))
            }
        }
    }

    /// Looks which threads the process has, to be called now and then. Whether it runs still.
    pub fn see_threads(&mut self) -> bool {
        let Ok(entries) = fs::read_dir(&self.task) else { return false };
        let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        self.threads.extend(ids);
        true
    }

    /// What was counted so far.
    pub fn read(&self) -> Result<Exits, Failure> {
        let text = fs::read_to_string(&self.histogram).map_err(|error| {
            Failure::new(format!("reading {}", self.histogram.display()), error, "run as root")
        })?;
        Ok(exits(&Histogram::parse(&text), &self.reasons, &self.threads))
    }
}

fn exits(histogram: &Histogram, reasons: &Reasons, threads: &BTreeSet<u64>) -> Exits {
    let own = histogram.rows.iter().filter(|row| threads.contains(&row.thread));
    let mut counts: Vec<ExitCount> = Vec::new();
    for row in own {
        let reason = reasons.name(row.reason);
        match counts.iter_mut().find(|count| count.vcpu == row.vcpu && count.reason == reason) {
            Some(known) => known.count += row.count,
            None => counts.push(ExitCount { vcpu: row.vcpu, reason, count: row.count }),
        }
    }
    counts.sort_by(|a, b| (a.vcpu, b.count, &a.reason).cmp(&(b.vcpu, a.count, &b.reason)));
    Exits { counts, dropped: histogram.dropped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use histogram::Row;

    #[test]
    fn only_the_threads_of_the_process_count() {
        let row = |thread, vcpu, reason, count| Row { thread, vcpu, reason, count };
        let rows = vec![row(10, 0, 0x7b, 5), row(11, 0, 0x7b, 2), row(11, 1, 0x60, 9), row(12, 1, 0x60, 100)];
        let histogram = Histogram { rows, dropped: 3 };
        let format = "\tfield:u32 exit_reason;\n\tfield:u32 vcpu_id;\n";
        let reasons = Reasons::parse(format, Extension::Svm).unwrap();
        let found = exits(&histogram, &reasons, &[10, 11].into());
        let counts: Vec<_> = found.counts.iter().map(|c| (c.vcpu, c.reason.as_str(), c.count)).collect();
        assert_eq!(counts, [(0, "0x7b", 7), (1, "0x60", 9)]);
        assert_eq!(found.dropped, 3);
    }
}
