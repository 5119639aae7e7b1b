//! The probes, one file each, and what several of them need.

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

use std::fs;
use std::path::Path;

use super::{Finding, Probe};

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

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A file's text without the white space around it; empty where it cannot be read.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The text, or words for there being none.
fn or_unknown(text: String) -> String {
    if text.is_empty() { "unknown".into() } else { text }
}

/// The number in the first line of a text that starts with `field`, as /proc has them: `VmLck:  64 kB`.
fn field(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Binary units, as far as the number is round.
fn bytes(count: usize) -> String {
    match count {
        count if count >= 1024 * MIB && count.is_multiple_of(1024 * MIB) => {
            format!("{} GiB", count / (1024 * MIB))
        }
        count if count >= MIB => format!("{} MiB", count / MIB),
        count => format!("{} KiB", count / KIB),
    }
}
