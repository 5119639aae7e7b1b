//! The probes, one file each.

mod af_xdp;
pub mod cgroup_tree;
mod cgroups;
mod clocksource;
mod huge_pages;
mod isolated_cpus;
mod kvm_device;
mod memory_locking;
mod namespaces;
mod performance_counters;
mod real_time;
mod steal_time;
pub mod tracefs;
mod tracing;
mod tun;
mod vhost_net;

use super::finding::Probe;

/// All probes in the order they run: time, memory, network, isolation, observation, virtualization.
pub const ALL: [Probe; 15] = [
    real_time::PROBE,
    isolated_cpus::PROBE,
    steal_time::PROBE,
    clocksource::PROBE,
    memory_locking::PROBE,
    huge_pages::PROBE,
    tun::PROBE,
    vhost_net::PROBE,
    af_xdp::PROBE,
    namespaces::USER,
    namespaces::NETWORK,
    cgroups::PROBE,
    performance_counters::PROBE,
    tracing::PROBE,
    kvm_device::PROBE,
];

/// The names of all probes, in the order they run.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].id;
        index += 1;
    }
    names
};

/// The probe of this name.
pub fn find(name: &str) -> Option<&'static Probe> {
    ALL.iter().find(|probe| probe.id == name)
}
