use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::events::{Event, Kind, Pid, Target, Trace};
use crate::path::vcpus;

/// The latency that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// From a virtual CPU's wake-up to its guest's entry.
    WakeUp,
    /// From an interrupt that is pending for a virtual CPU to the entry that delivers it.
    Interrupt,
    /// From an interrupt that is pending for a virtual CPU to the woken thread in the guest's user space. The host
    /// sees only the first part of it.
    UserSpace,
}

impl Watched {
    /// All stages.
    pub const ALL: [Self; 3] = [Self::WakeUp, Self::Interrupt, Self::UserSpace];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::WakeUp => "wake-up",
            Self::Interrupt => "interrupt",
            Self::UserSpace => "user-space",
        }
    }
}

/// A measured latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The virtual CPU's thread.
    pub pid: Pid,
    /// The number of the virtual CPU.
    pub vcpu: u32,
    /// When the latency began, ns.
    pub began: u64,
    /// When the guest was entered, ns.
    pub ended: u64,
}

impl Latency {
    /// The duration, ns.
    pub fn ns(&self) -> u64 {
        self.ended.saturating_sub(self.began)
    }

    /// Whether both are the same latency, seen by two recorders.
    pub fn is_same(&self, other: &Self) -> bool {
        self.pid == other.pid && self.began < other.ended && other.began < self.ended
    }
}

/// Finds latencies in a stream of events.
#[derive(Clone, Debug)]
pub struct Follower {
    watched: Watched,
    /// The threads that may be virtual CPUs.
    threads: Vec<Pid>,
    vcpus: BTreeMap<Pid, u32>,
    began: BTreeMap<Pid, u64>,
    /// For each virtual CPU, whether the next entry delivers an interrupt. Virtual CPUs without any injection so far
    /// are not in the map: the processor itself delivers their interrupts.
    injected: BTreeMap<Pid, bool>,
}

impl Follower {
    /// A follower for the virtual CPUs of a process. A thread is recognised as a virtual CPU at its first entry.
    pub fn new(watched: Watched, target: &Target) -> Self {
        Self {
            watched,
            threads: target.threads.clone(),
            vcpus: BTreeMap::new(),
            began: BTreeMap::new(),
            injected: BTreeMap::new(),
        }
    }

    /// Takes the next event. Returns the latency that ends with it.
    pub fn follow(&mut self, event: &Event) -> Option<Latency> {
        match (self.watched, &event.kind) {
            (Watched::WakeUp, Kind::Waking { target }) if self.vcpus.contains_key(target) => {
                self.began.entry(*target).or_insert(event.time);
            }
            (Watched::Interrupt | Watched::UserSpace, Kind::Accept { apic, .. }) => {
                for (pid, _) in self.vcpus.iter().filter(|(_, vcpu)| *vcpu == apic) {
                    self.began.entry(*pid).or_insert(event.time);
                }
            }
            (_, Kind::Inject { .. }) => {
                self.injected.insert(event.pid, true);
            }
            (_, Kind::Entry { vcpu }) if self.threads.contains(&event.pid) => {
                self.vcpus.insert(event.pid, *vcpu);
                let injected = self.injected.get_mut(&event.pid).map(std::mem::take);
                if self.watched != Watched::WakeUp && injected == Some(false) {
                    // The guest has interrupts off, or is busy with another.
                    return None;
                }
                let began = self.began.remove(&event.pid)?;
                return Some(Latency { pid: event.pid, vcpu: *vcpu, began, ended: event.time });
            }
            _ => {}
        }
        None
    }

    /// Notes that events are missing here, so that latencies in progress have no known end.
    pub fn gap(&mut self) {
        self.began.clear();
    }
}

/// All latencies of a trace, the shortest first.
pub fn latencies(trace: &Trace, target: &Target, watched: Watched) -> Vec<Latency> {
    let mut follower = Follower::new(watched, target);
    follower.vcpus = vcpus(trace, target);
    let mut found: Vec<Latency> = trace.events.iter().filter_map(|event| follower.follow(event)).collect();
    found.sort_by_key(Latency::ns);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Context;

    #[test]
    fn an_interrupt_is_pending_until_it_is_injected() {
        let target = Target { pid: 7, threads: vec![7], has_vfio: false };
        let mut follower = Follower::new(Watched::Interrupt, &target);
        let mut at =
            |time, kind| follower.follow(&Event { time, cpu: 0, pid: 7, context: Context::Task, kind });
        let accept = || Kind::Accept { apic: 2, vector: 236 };
        let entry = || Kind::Entry { vcpu: 2 };
        at(10, entry());
        at(20, accept());
        assert_eq!(at(25, entry()).unwrap().ns(), 5, "the processor may deliver it");
        at(30, accept());
        at(40, Kind::Inject { vector: 236 });
        assert_eq!(at(45, entry()).unwrap().ns(), 15);
        // From now on it is known that it does not.
        at(50, accept());
        assert_eq!(at(60, entry()), None, "the guest has interrupts off");
        at(80, Kind::Inject { vector: 236 });
        assert_eq!(at(90, entry()).unwrap().ns(), 40);
    }

    #[test]
    fn nothing_goes_across_a_gap() {
        let target = Target { pid: 7, threads: vec![7], has_vfio: false };
        let mut follower = Follower::new(Watched::WakeUp, &target);
        let mut at =
            |time, kind| follower.follow(&Event { time, cpu: 0, pid: 7, context: Context::Task, kind });
        let waking = || Kind::Waking { target: 7 };
        assert_eq!(at(10, waking()), None, "not yet known as a virtual CPU");
        assert_eq!(at(20, Kind::Entry { vcpu: 2 }), None);
        at(30, waking());
        at(35, waking());
        let latency = at(40, Kind::Entry { vcpu: 2 }).unwrap();
        assert_eq!((latency.vcpu, latency.ns()), (2, 10), "the first of two wake-ups counts");
        at(50, waking());
        follower.gap();
        let end = Event { time: 90, cpu: 0, pid: 7, context: Context::Task, kind: Kind::Entry { vcpu: 2 } };
        assert_eq!(follower.follow(&end), None);
    }
}
