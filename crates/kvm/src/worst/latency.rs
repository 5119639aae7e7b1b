use serde::{Deserialize, Serialize};

use crate::events::{Kind, Pid, Target, Trace};
use crate::path::vcpus;

/// Which latency is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watched {
    /// From a virtual CPU's wake-up to its guest's entry.
    WakeUp,
    /// From an interrupt that is pending for a virtual CPU to the entry that delivers it.
    Interrupt,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The virtual CPU's thread.
    pub pid: Pid,
    /// The virtual CPU.
    pub vcpu: u32,
    /// When it began, ns.
    pub began: u64,
    /// When the guest was entered, ns.
    pub ended: u64,
}

impl Latency {
    /// How long, ns.
    pub fn ns(&self) -> u64 {
        self.ended.saturating_sub(self.began)
    }
}

/// All of a trace, the shortest first.
pub fn latencies(trace: &Trace, target: &Target, watched: Watched) -> Vec<Latency> {
    let mut found = Vec::new();
    for (pid, vcpu) in vcpus(trace, target) {
        let mut began = None;
        for event in &trace.events {
            let starts = match (watched, &event.kind) {
                (Watched::WakeUp, Kind::Waking { target }) => *target == pid,
                (Watched::Interrupt, Kind::Accept { apic, .. }) => *apic == vcpu,
                _ => false,
            };
            if starts {
                began = began.or(Some(event.time));
            }
            let delivers = matches!(event.kind, Kind::Entry { .. }) && event.pid == pid;
            if let (true, Some(start)) = (delivers, began) {
                found.push(Latency { pid, vcpu, began: start, ended: event.time });
                began = None;
            }
        }
    }
    found.sort_by_key(Latency::ns);
    found
}
