//! The cost of a flow: CPU time of both ends as they report it, and what the kernel counts of all other threads.

use std::collections::BTreeMap;

use control::{Client, Request};
use environment::network::{OpenPath, Switch, UserSpaceSwitch};
use linux::cpu_time::{self, CpuTime, ThreadTime};
use measure::network::{Cost, GuestCounts, RECEIVER, RECEIVING_VCPU, RoleCost, SENDER, SENDING_VCPU};
use serde_json::Value;
use workload::network::{Counts, Side, Took};

/// Counters at one instant.
pub struct Reading {
    /// The CPU time of each thread, by its role.
    threads: BTreeMap<(&'static str, u32), ThreadTime>,
    cpus: CpuTime,
    interrupts: (u64, u64),
    exits: Option<u64>,
    notifications: Option<Notifications>,
}

impl Reading {
    pub fn now(path: &mut OpenPath, cpus: &[usize]) -> Self {
        let (exits, notifications) = (path.exits(), path.switch().and_then(Notifications::of));
        let mut threads = BTreeMap::new();
        let add = |threads: &mut BTreeMap<_, _>, role: &'static str, process| {
            threads.extend(cpu_time::threads(process).into_iter().map(|(id, time)| ((role, id), time)));
        };
        match path.switch() {
            Some(UserSpaceSwitch::Tautline(switch)) => {
                add(&mut threads, "switch worker", switch.process_id())
            }
            Some(UserSpaceSwitch::OvsDpdk(switch)) => {
                for (id, time) in cpu_time::threads(switch.process_id()) {
                    threads.insert((of_ovs(&time.name), id), time);
                }
            }
            None => {}
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
        // Interrupts that a softirq thread finishes; all other interrupts are in the time of the thread that they
        // interrupt.
        for process in cpu_time::processes_named("ksoftirqd/") {
            add(&mut threads, "softirq", process);
        }
        let (cpus, interrupts) = (CpuTime::of(cpus).unwrap_or_default(), cpu_time::interrupts());
        Reading { threads, cpus, interrupts, exits, notifications }
    }

    /// The cost since an earlier reading, including what both ends took. The time of a guest's threads is part of
    /// its virtual CPUs' time.
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
            guest: in_guest
                .then(|| self.guest_since(before, if sending == Side::Near { sender } else { receiver })),
        }
    }

    /// The counts between a guest and its host; the guest is the near end.
    fn guest_since(&self, before: &Reading, near: &Counts) -> GuestCounts {
        let more = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
        let of = |of: fn(&Notifications) -> u64| {
            more(self.notifications.as_ref().map(of), before.notifications.as_ref().map(of))
        };
        let kicks = of(|notifications| notifications.kicks);
        GuestCounts {
            exits: more(self.exits, before.exits),
            interrupts: Some(near.interrupts),
            kicks,
            kicks_suppressed: more(of(|notifications| notifications.frames), kicks),
            calls: of(|notifications| notifications.calls),
            calls_suppressed: of(|notifications| notifications.calls_suppressed),
        }
    }
}

/// The notifications that `tautline switch` has counted at its guest's port.
#[derive(Debug, Default, PartialEq)]
struct Notifications {
    /// Frames that the guest sent.
    frames: u64,
    kicks: u64,
    calls: u64,
    calls_suppressed: u64,
}

impl Notifications {
    /// `None` for another switch, or if the switch does not answer: the guest's flow then shows the reason.
    fn of(switch: &UserSpaceSwitch) -> Option<Self> {
        let UserSpaceSwitch::Tautline(switch) = switch else { return None };
        let mut client = Client::connect(switch.control()?).ok()?;
        client.end_waiting_if(linux::interrupt::is_set);
        Self::read(&client.ask(Request::Stats).ok()?)
    }

    fn read(stats: &Value) -> Option<Self> {
        let port = stats["ports"].as_array()?.iter().find(|port| port["name"] == Switch::GUEST_PORT)?;
        let mut sum = Notifications::default();
        for queue in port["queues"].as_array()? {
            let number = |name: &str| queue[name].as_u64();
            if queue["from_guest"].as_bool()? {
                sum.frames += number("frames")?;
            }
            sum.kicks += number("kicks")?;
            sum.calls += number("notifications")?;
            sum.calls_suppressed += number("suppressed")?;
        }
        Some(sum)
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

/// The role of a thread of Open vSwitch's, by the name that it gives it: a poll-mode driver's has the vhost-user port,
/// the main one the kernel's interfaces.
fn of_ovs(name: &str) -> &'static str {
    if name.starts_with("pmd") { "OVS PMD thread" } else { "OVS main thread" }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_switch_counted_of_its_guest_is_read_by_name() {
        let queue = |from_guest: bool, frames: u64, kicks: u64| serde_json::json!({ "from_guest": from_guest, "frames": frames, "kicks": kicks, "notifications": 3, "suppressed": 5 });
        let port = |name: &str, frames| serde_json::json!({ "name": name, "queues": [queue(true, frames, 2), queue(false, 9, 0)] });
        let stats = serde_json::json!({ "ports": [port("far", 1), port(Switch::GUEST_PORT, 40)] });
        let wanted = Notifications { frames: 40, kicks: 2, calls: 6, calls_suppressed: 10 };
        assert_eq!(Notifications::read(&stats), Some(wanted));
        assert_eq!(Notifications::read(&serde_json::json!({ "ports": [port("far", 1)] })), None);
        assert_eq!(Notifications::read(&serde_json::json!({})), None);
    }
}
