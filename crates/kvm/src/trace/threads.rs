//! The data in /proc about a process's threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use measure::Failure;
use rustix::param::clock_ticks_per_second;

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
    /// Time in a guest that the kernel accounts to the thread, in ns: its ticks that met the guest, or measured at each
    /// entry and exit (`guest_time` of proc_pid_stat(5)).
    pub guest_ns: u64,
    /// Time in user space and in the kernel that the kernel accounts to the thread besides, in ns (`utime`, `stime`).
    pub host_ns: u64,
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
            let Some(now) = scheduled(&read("schedstat"), &read("status"), &read("stat")) else { continue };
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
            guest_ns: last.guest_ns.saturating_sub(first.guest_ns),
            host_ns: last.host_ns.saturating_sub(first.host_ns),
        }
    }
}

/// `schedstat` is on the CPU, waiting for it, time slices; a kernel without it has zeros.
fn scheduled(schedstat: &str, status: &str, stat: &str) -> Option<Scheduled> {
    let involuntary = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    let waited = schedstat.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    // Behind the name, which may contain anything, in ticks; `utime` contains `guest_time`.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ns = |field: usize| {
        let ticks = after_name.split(' ').nth(field - 3).and_then(|word| word.trim().parse::<u64>().ok());
        ticks.unwrap_or(0).saturating_mul(1_000_000_000 / clock_ticks_per_second())
    };
    Some(Scheduled {
        waited_ns: waited.unwrap_or(0),
        involuntary: involuntary.trim().parse().ok()?,
        guest_ns: ns(43),
        host_ns: (ns(14) + ns(15)).saturating_sub(ns(43)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scheduler_counts() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n";
        // Fields 3 to 44; `utime`, `stime` and `guest_time` are the 14th, 15th and 43rd.
        let stat = format!("7 (a ) b) R{} 5 2{} 4 0\n", " 0".repeat(10), " 9".repeat(27));
        let tick = 1_000_000_000 / clock_ticks_per_second();
        let times = Scheduled { waited_ns: 70, involuntary: 4, guest_ns: 4 * tick, host_ns: 3 * tick };
        assert_eq!(scheduled("100 70 3\n", status, &stat), Some(times));
        let none = Scheduled { involuntary: 4, ..Scheduled::default() };
        assert_eq!(scheduled("", status, ""), Some(none));
        assert_eq!(scheduled("1 2 3", "", &stat), None);
        assert!(Threads::of(std::process::id()).unwrap().contains(u64::from(std::process::id())));
    }
}
