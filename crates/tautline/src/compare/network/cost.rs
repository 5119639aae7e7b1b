//! What a flow took: read before and after it from what the kernel counts.

use std::collections::BTreeMap;

use environment::network::{OpenPath, Party};
use linux::cpu_time::{self, CpuTime, ThreadTime};
use measure::network::{Cost, KindCost, RoleCost};
use workload::network::{Flow, Side};

/// Counters at one instant.
pub struct Reading {
    threads: BTreeMap<(Option<Party>, u32), ThreadTime>,
    cpus: CpuTime,
    interrupts: (u64, u64),
}

impl Reading {
    pub fn now(path: &OpenPath, cpus: &[usize]) -> Self {
        let mut threads = BTreeMap::new();
        for (party, process) in path.processes() {
            threads
                .extend(cpu_time::threads(process).into_iter().map(|(id, time)| ((Some(party), id), time)));
        }
        // Interrupts that a softirq thread finishes; what is done on the spot is in the time of whom it interrupts.
        for process in cpu_time::processes_named("ksoftirqd/") {
            threads.extend(cpu_time::threads(process).into_iter().map(|(id, time)| ((None, id), time)));
        }
        Reading { threads, cpus: CpuTime::of(cpus).unwrap_or_default(), interrupts: cpu_time::interrupts() }
    }

    /// What was added since an earlier reading, by role.
    pub fn since(&self, before: &Reading, flow: &Flow) -> Cost {
        let mut roles: Vec<RoleCost> = Vec::new();
        for ((party, id), after) in &self.threads {
            let earlier = before.threads.get(&(*party, *id)).cloned().unwrap_or_default();
            let took = after.since(&earlier);
            if took.cpu_ns == 0 {
                continue;
            }
            let role = role(*party, flow);
            let place = roles.iter().position(|known| known.role == role).unwrap_or_else(|| {
                roles.push(RoleCost { role: role.to_owned(), ..RoleCost::default() });
                roles.len() - 1
            });
            roles[place].cpu_ns += took.cpu_ns;
            roles[place].voluntary_switches += took.voluntary_switches;
            roles[place].involuntary_switches += took.involuntary_switches;
        }
        let kinds = self.cpus.since(before.cpus);
        let beside_threads_ns =
            if interrupts_are_beside_threads() { kinds.irq_ns + kinds.softirq_ns } else { 0 };
        Cost {
            cpu_ns: roles.iter().map(|role| role.cpu_ns).sum::<u64>() + beside_threads_ns,
            roles,
            kinds: KindCost {
                user_ns: kinds.user_ns,
                system_ns: kinds.system_ns,
                irq_ns: kinds.irq_ns,
                softirq_ns: kinds.softirq_ns,
                guest_ns: kinds.guest_ns,
                steal_ns: kinds.steal_ns,
            },
            calls: 0,
            interrupts: self.interrupts.0.saturating_sub(before.interrupts.0),
            softirqs: self.interrupts.1.saturating_sub(before.interrupts.1),
        }
    }
}

/// What a party's threads do in a flow.
fn role(party: Option<Party>, flow: &Flow) -> &'static str {
    let sends = |side| flow.sending() == side;
    match party {
        Some(Party::Near) if sends(Side::Near) => "sender",
        Some(Party::Far) if sends(Side::Far) => "sender",
        Some(Party::Near | Party::Far) => "receiver",
        Some(Party::Switch) => "switch worker",
        None => "softirq",
    }
}

/// Whether the kernel leaves the time of interrupts out of the threads that they interrupt
/// (CONFIG_IRQ_TIME_ACCOUNTING). Its configuration says so, where it can be read.
fn interrupts_are_beside_threads() -> bool {
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *KNOWN.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let file = std::fs::read_to_string(format!("/boot/config-{}", release.trim()));
        file.is_ok_and(|text| text.contains("\nCONFIG_IRQ_TIME_ACCOUNTING=y"))
    })
}
