//! What a flow took: what both ends say of their threads, and beside it what the kernel counts of all others.

use std::collections::BTreeMap;

use environment::network::OpenPath;
use linux::cpu_time::{self, CpuTime, ThreadTime};
use measure::network::{Cost, RECEIVER, RECEIVING_VCPU, RoleCost, SENDER, SENDING_VCPU};
use workload::network::{Counts, Side, Took};

/// Counters at one instant.
pub struct Reading {
    /// By role and thread.
    threads: BTreeMap<(&'static str, u32), ThreadTime>,
    cpus: CpuTime,
    interrupts: (u64, u64),
}

impl Reading {
    pub fn now(path: &OpenPath, cpus: &[usize]) -> Self {
        let mut threads = BTreeMap::new();
        let add = |threads: &mut BTreeMap<_, _>, role: &'static str, process| {
            threads.extend(cpu_time::threads(process).into_iter().map(|(id, time)| ((role, id), time)));
        };
        if let Some(process) = path.switch() {
            add(&mut threads, "switch worker", process);
        }
        if let Some(process) = path.qemu() {
            for (id, time) in cpu_time::threads(process) {
                threads.insert((of_qemu(&time.name), id), time);
            }
            // A process of its own before Linux 6.4, a thread of QEMU's since.
            for process in cpu_time::processes_named(&format!("vhost-{process}")) {
                add(&mut threads, VHOST_WORKER, process);
            }
        }
        // Interrupts that a softirq thread finishes; what is done on the spot is in the time of whom it interrupts.
        for process in cpu_time::processes_named("ksoftirqd/") {
            add(&mut threads, "softirq", process);
        }
        Reading { threads, cpus: CpuTime::of(cpus).unwrap_or_default(), interrupts: cpu_time::interrupts() }
    }

    /// What was added since an earlier reading, and what both ends took. The time of a thread in a guest is in its
    /// virtual CPUs'.
    pub fn since(&self, before: &Reading, sending: Side, (sender, receiver): (&Counts, &Counts)) -> Cost {
        let in_guest = self.threads.keys().any(|(role, _)| *role == VCPU);
        let ends = [(SENDER, sender, sending == Side::Near), (RECEIVER, receiver, sending == Side::Far)];
        let outside = ends.into_iter().filter(|(.., is_near)| !(in_guest && *is_near));
        let mut roles: Vec<RoleCost> = outside.map(|(role, counts, _)| of_end(role, counts.took)).collect();
        for ((role, id), after) in &self.threads {
            let took =
                before.threads.get(&(*role, *id)).map_or_else(|| after.clone(), |before| after.since(before));
            if took.cpu_ns == 0 {
                continue;
            }
            let role = match (*role, sending) {
                (VCPU, Side::Near) => SENDING_VCPU,
                (VCPU, Side::Far) => RECEIVING_VCPU,
                (other, _) => other,
            };
            let place = roles.iter().position(|known| known.role == role).unwrap_or_else(|| {
                roles.push(RoleCost { role: role.to_owned(), ..RoleCost::default() });
                roles.len() - 1
            });
            roles[place].cpu_ns += took.cpu_ns;
            roles[place].voluntary_switches += took.voluntary_switches;
            roles[place].involuntary_switches += took.involuntary_switches;
        }
        let kinds = self.cpus.since(before.cpus);
        if interrupts_are_beside_threads() {
            let cpu_ns = kinds.irq_ns + kinds.softirq_ns;
            roles.push(RoleCost { role: "interrupts".into(), cpu_ns, ..RoleCost::default() });
        }
        Cost {
            cpu_ns: roles.iter().map(|role| role.cpu_ns).sum(),
            roles,
            kinds,
            calls: sender.calls + receiver.calls,
            interrupts: self.interrupts.0.saturating_sub(before.interrupts.0),
            softirqs: self.interrupts.1.saturating_sub(before.interrupts.1),
        }
    }
}

const VCPU: &str = "vCPU";
const VHOST_WORKER: &str = "vhost worker";

/// The role of a thread of QEMU's, by the name that QEMU gives it (`-name …,debug-threads=on`).
fn of_qemu(name: &str) -> &'static str {
    match name {
        _ if name.starts_with("CPU ") => VCPU,
        _ if name.starts_with("vhost-") => VHOST_WORKER,
        _ => "QEMU I/O thread",
    }
}

fn of_end(role: &str, took: Took) -> RoleCost {
    RoleCost {
        role: role.into(),
        cpu_ns: took.cpu_ns,
        voluntary_switches: took.voluntary_switches,
        involuntary_switches: took.involuntary_switches,
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
