//! Threads of the kernel and of virtual machines, as `/proc` shows them.

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::tree::HostTree;

/// One thread. The start time distinguishes the thread from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadId {
    /// The thread's id.
    pub id: i32,
    /// The thread's name.
    pub name: String,
    /// The time when the thread started, in clock ticks since boot.
    pub started: u64,
}

/// A thread with its CPUs and its scheduling policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's id, name and start.
    pub id: ThreadId,
    /// Whether the thread is a kernel thread.
    pub kernel: bool,
    /// Whether the thread is a kernel thread that must stay on its CPUs.
    pub bound: bool,
    /// The id of the thread's process.
    pub process: i32,
    /// The CPUs that the thread may use.
    pub cpus: CpuList,
    /// The thread's scheduling policy and priority.
    pub scheduling: Scheduling,
}

/// A scheduling policy with its priority: `fifo 2`, `other 0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduling {
    /// The kernel's number of the policy.
    pub policy: i32,
    /// The priority: 1 to 99 for real-time policies, otherwise 0.
    pub priority: i32,
}

const POLICIES: [(i32, &str); 5] = [(0, "other"), (1, "fifo"), (2, "rr"), (3, "batch"), (5, "idle")];

impl Scheduling {
    /// SCHED_FIFO at this priority.
    pub fn fifo(priority: i32) -> Self {
        Scheduling { policy: 1, priority }
    }

    /// Whether the policy is SCHED_FIFO or SCHED_RR.
    pub fn is_real_time(self) -> bool {
        matches!(self.policy, 1 | 2)
    }

    /// Parses the text that `Display` writes. Returns `None` if the policy or the priority is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        let (policy, priority) = text.split_once(' ')?;
        let policy = POLICIES.iter().find(|(_, name)| *name == policy)?.0;
        Some(Scheduling { policy, priority: priority.parse().ok()? })
    }
}

impl std::fmt::Display for Scheduling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match POLICIES.iter().find(|(number, _)| *number == self.policy) {
            Some((_, name)) => write!(f, "{name} {}", self.priority),
            None => write!(f, "policy-{} {}", self.policy, self.priority),
        }
    }
}

/// All processes, and every thread of the processes that run virtual machines.
///
/// # Errors
/// The `stat` or `status` of a process may not be read or has not the format of proc(5); /proc has no process; or it
/// has no kernel thread, as in a container, whose /proc lacks other processes.
pub fn all(tree: &HostTree) -> Result<Vec<Thread>, String> {
    let mut found = Vec::new();
    for process in numbers(tree, "/proc") {
        let folder = format!("/proc/{process}");
        let Some(main) = read(tree, &folder, process)? else { continue };
        let runs_guests = main.id.name.starts_with("qemu") || main.id.name.starts_with("kvm");
        if runs_guests && !main.kernel {
            for task in numbers(tree, &format!("{folder}/task")).into_iter().filter(|task| *task != process) {
                found.extend(read(tree, &format!("{folder}/task/{task}"), process)?);
            }
        }
        found.push(main);
    }
    if found.is_empty() {
        return Err("reading /proc: no process in it".into());
    }
    // Every kernel has threads: if /proc shows none, it does not show other processes either.
    match found.iter().any(|thread| thread.kernel) {
        true => Ok(found),
        false => Err("reading /proc: no thread of the kernel in it, as in a container".into()),
    }
}

/// Every thread of a process. The list is empty if the process has ended.
///
/// # Errors
/// The `stat` or `status` of a thread may not be read, or has not the format of proc(5).
pub fn of_process(tree: &HostTree, process: i32) -> Result<Vec<Thread>, String> {
    let folder = format!("/proc/{process}/task");
    let tasks = numbers(tree, &folder).into_iter();
    tasks.filter_map(|task| read(tree, &format!("{folder}/{task}"), process).transpose()).collect()
}

/// Processes and kernel threads for whose names `wanted` returns true.
///
/// # Errors
/// The `stat` or `status` of a process may not be read, or has not the format of proc(5).
pub fn named(tree: &HostTree, wanted: impl Fn(&str) -> bool) -> Result<Vec<Thread>, String> {
    let is_wanted = |process: &i32| {
        // A process that ended meanwhile has no name.
        tree.read(&format!("/proc/{process}/comm")).is_ok_and(|name| wanted(name.trim_end()))
    };
    let processes = numbers(tree, "/proc").into_iter().filter(is_wanted);
    processes.filter_map(|process| read(tree, &format!("/proc/{process}"), process).transpose()).collect()
}

/// The present state of the thread, if the thread still exists.
pub fn now(tree: &HostTree, id: &ThreadId) -> Option<Thread> {
    // A thread's own folder can be read although listing /proc shows processes alone. Its name may change.
    let same = |thread: &Thread| thread.id.id == id.id && thread.id.started == id.started;
    read(tree, &format!("/proc/{}", id.id), id.id).ok().flatten().filter(same)
}

fn numbers(tree: &HostTree, folder: &str) -> Vec<i32> {
    tree.names(folder).iter().filter_map(|name| name.parse().ok()).collect()
}

/// proc(5), /proc/PID/stat and /proc/PID/status; none where it has ended.
fn read(tree: &HostTree, folder: &str, process: i32) -> Result<Option<Thread>, String> {
    let text = |name: &str| match tree.read(&format!("{folder}/{name}")) {
        Ok(text) => Ok(Some(text)),
        Err(unread) if unread.is_absent() || unread.is_of_an_ended_process() => Ok(None),
        Err(unread) => Err(unread.to_string()),
    };
    let (Some(stat), Some(status)) = (text("stat")?, text("status")?) else { return Ok(None) };
    parse(&stat, &status, process)
        .map(Some)
        .ok_or_else(|| format!("reading {folder}/stat: not as in proc(5)"))
}

fn parse(stat: &str, status: &str, process: i32) -> Option<Thread> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
    let (head, rest) = stat.rsplit_once(')')?;
    let (id, name) = head.split_once(" (")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // The first of these is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.parse().ok()?;
    Some(Thread {
        id: ThreadId { id: id.parse().ok()?, name: name.to_owned(), started: field(22)? },
        kernel: field(9)? & PF_KTHREAD != 0,
        bound: field(9)? & PF_NO_SETAFFINITY != 0,
        process,
        cpus,
        scheduling: Scheduling { policy: field(41)? as i32, priority: field(40)? as i32 },
    })
}
