//! The data in /proc about a process's threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use measure::Failure;

/// Threads of one process, including ended ones.
pub struct Threads {
    folder: PathBuf,
    seen: BTreeMap<u64, Seen>,
}

/// The scheduler's counts for a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Time that the thread was runnable while another ran, ns.
    pub waited_ns: u64,
    /// How often the thread was preempted.
    pub involuntary: u64,
}

#[derive(Clone, Copy)]
struct Seen {
    first: Scheduled,
    last: Scheduled,
}

impl Threads {
    /// Looks up the threads of a process.
    ///
    /// # Errors
    /// There is no process of this id, or its threads may not be listed.
    pub fn of(pid: u32) -> Result<Self, Failure> {
        let folder = Path::new("/proc").join(pid.to_string()).join("task");
        let mut threads = Self { folder, seen: BTreeMap::new() };
        if threads.look() {
            return Ok(threads);
        }
        Err(Failure::new(format!("tracing process {pid}"), "there is none", "name a running one"))
    }

    /// Updates the threads. Must be called from time to time. Returns whether the process still runs.
    pub fn look(&mut self) -> bool {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return false };
        for entry in entries.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |name| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
            let Some(now) = scheduled(&read("schedstat"), &read("status")) else { continue };
            self.seen.entry(id).or_insert(Seen { first: now, last: now }).last = now;
        }
        true
    }

    pub fn contains(&self, id: u64) -> bool {
        self.seen.contains_key(&id)
    }

    /// The counts since the thread was first seen.
    pub fn scheduled(&self, id: u64) -> Scheduled {
        let Some(Seen { first, last }) = self.seen.get(&id).copied() else { return Scheduled::default() };
        Scheduled {
            waited_ns: last.waited_ns.saturating_sub(first.waited_ns),
            involuntary: last.involuntary.saturating_sub(first.involuntary),
        }
    }
}

/// `schedstat` is on the CPU, waiting for it, time slices; a kernel without it has zeros.
fn scheduled(schedstat: &str, status: &str) -> Option<Scheduled> {
    let involuntary = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    let waited = schedstat.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Some(Scheduled { waited_ns: waited.unwrap_or(0), involuntary: involuntary.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scheduler_counts() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(scheduled("100 70 3\n", status), Some(Scheduled { waited_ns: 70, involuntary: 4 }));
        assert_eq!(scheduled("", status), Some(Scheduled { waited_ns: 0, involuntary: 4 }));
        assert_eq!(scheduled("1 2 3", ""), None);
        assert!(Threads::of(std::process::id()).unwrap().contains(u64::from(std::process::id())));
    }
}
