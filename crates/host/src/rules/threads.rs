//! The priority order of threads on isolated CPUs, and helper threads of KVM.

use super::rule::*;
use crate::knob::Knob;
use crate::survey::Survey;
use crate::threads::{Scheduling, Thread};

pub const RULES: &[Rule] = &[
    Rule {
        id: "fifo-order",
        title: "SCHED_FIFO in the right order",
        why: "a vCPU above rcuc stalls RCU and with it the host; below ksoftirqd it yields to the kernel's work",
        source: "tuned realtime; libvirt kvm-realtime",
        risk: "the kernel's threads take the CPU from the guest for as long as they run",
        takes: Takes::RunTime,
        profiles: HOST,
        look: fifo_order,
    },
    Rule {
        id: "kvm-threads",
        title: "KVM's helper threads off isolated CPUs",
        why: "kvm-pit, vhost and kvm-nx-lpage threads are started wherever QEMU happens to be",
        source: "KubeVirt",
        risk: "the worker shares housekeeping CPUs with others",
        takes: Takes::RunTime,
        profiles: HOST,
        look: helpers,
    },
    Rule {
        id: "kernel-threads",
        title: "Other threads of the kernel off isolated CPUs",
        why: "reclaim, compaction, RCU's and drivers' threads run on any CPU that they may use",
        source: "tuned realtime (isolated_cores of its scheduler plugin)",
        risk: "they share housekeeping CPUs with others",
        takes: Takes::RunTime,
        profiles: REAL_TIME,
        look: kernel_threads,
    },
];

/// Threads that can be moved and that `kvm-threads` does not move.
fn kernel_threads(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let threads = match survey.threads() {
        Ok(threads) => threads,
        Err(reason) => return Verdict::unknown(reason, format!("on {}", survey.housekeeping())),
    };
    // A thread that may use only isolated CPUs serves these CPUs.
    let movable = |thread: &&Thread| {
        thread.kernel && !thread.bound && !is_helper(thread) && !thread.cpus.within(&survey.isolated)
    };
    let all: Vec<&Thread> = threads.iter().filter(movable).collect();
    off_isolated(survey, &all)
}

/// The priority that a kernel thread of an isolated CPU should have.
fn wanted_priority(name: &str) -> Option<i32> {
    let (kind, _) = name.split_once('/')?;
    match kind {
        "ksoftirqd" | "ktimers" => Some(2),
        "rcuc" | "rcub" => Some(4),
        _ => None,
    }
}

fn is_vcpu(thread: &Thread) -> bool {
    !thread.kernel && thread.id.name.starts_with("CPU ") && thread.id.name.ends_with("/KVM")
}

fn fifo_order(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let wanted = "vCPUs 1 < ksoftirqd, ktimers 2 < rcuc, rcub 4";
    match survey.is_real_time() {
        Ok(true) => {}
        Ok(false) => {
            let reason = "a stock kernel runs soft interrupts in no thread that could be ordered";
            return Verdict::not_applicable(reason);
        }
        Err(unread) => return Verdict::unknown(unread, wanted),
    }
    let threads = match survey.threads() {
        Ok(threads) => threads,
        Err(reason) => return Verdict::unknown(reason, wanted),
    };
    let mut wrong = Vec::new();
    let mut changes = Vec::new();
    for thread in threads.iter().filter(|thread| !thread.cpus.and(&survey.isolated).is_empty()) {
        let priority = match wanted_priority(&thread.id.name) {
            Some(priority) if thread.kernel && thread.cpus.within(&survey.isolated) => priority,
            // rcub serves all CPUs of a group.
            Some(priority) if thread.kernel && thread.id.name.starts_with("rcub/") => priority,
            None if is_vcpu(thread) && thread.scheduling.is_real_time() => 1,
            _ => continue,
        };
        let wanted = Scheduling::fifo(priority);
        if thread.scheduling != wanted {
            wrong.push(format!("{}: {}", thread.id.name, thread.scheduling));
            changes.push(Change::Set {
                knob: Knob::Scheduling { thread: thread.id.clone() },
                value: wanted.to_string(),
            });
        }
    }
    let found = if wrong.is_empty() { "as wanted".into() } else { some_of(&wrong) };
    Verdict::judge(wrong.is_empty(), found, wanted).with(changes)
}

fn helpers(survey: &Survey) -> Verdict {
    if survey.isolated.is_empty() {
        return nothing_isolated();
    }
    let threads = match survey.threads() {
        Ok(threads) => threads,
        Err(reason) => return Verdict::unknown(reason, format!("on {}", survey.housekeeping())),
    };
    let all: Vec<&Thread> = threads.iter().filter(|thread| is_helper(thread)).collect();
    off_isolated(survey, &all)
}

fn is_helper(thread: &Thread) -> bool {
    ["kvm-pit/", "vhost-", "kvm-nx-lpage-"].iter().any(|start| thread.id.name.starts_with(start))
}

/// Judges that these threads may use no isolated CPU.
fn off_isolated(survey: &Survey, all: &[&Thread]) -> Verdict {
    let wanted = format!("on {}", survey.housekeeping());
    let astray: Vec<&&Thread> =
        all.iter().filter(|thread| !thread.cpus.and(&survey.isolated).is_empty()).collect();
    let names: Vec<String> =
        astray.iter().map(|thread| format!("{} on {}", thread.id.name, thread.cpus)).collect();
    let found = match (all.len(), names.len()) {
        (0, _) => "none runs".into(),
        (count, 0) => format!("all {count} are"),
        _ => some_of(&names),
    };
    let changes = astray.iter().map(|thread| {
        let rest = thread.cpus.without(&survey.isolated);
        let to = if rest.is_empty() { survey.housekeeping() } else { rest };
        Change::Set { knob: Knob::Affinity { thread: thread.id.clone() }, value: to.to_string() }
    });
    Verdict::judge(names.is_empty(), found, wanted).with(changes)
}
