//! The settings of a container that a user may choose.

use measure::quota::{CpuQuota, short_period, tick};

/// The program that makes the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `crun`
    Crun,
    /// `runc`
    Runc,
    /// `lxc-execute`
    Lxc,
}

impl Runtime {
    /// The name of the runtime's command.
    pub fn command(self) -> &'static str {
        match self {
            Runtime::Crun => "crun",
            Runtime::Runc => "runc",
            Runtime::Lxc => "lxc-execute",
        }
    }
}

/// The settings that a user may choose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The runtime; `None` chooses the first of crun, runc and LXC that really starts a container.
    pub runtime: Option<Runtime>,
    /// The CPU quota in CPUs, such as 0.5; `None` sets no quota.
    pub cpu_quota: Option<f64>,
    /// A network namespace to join; with `None` the container has its own, which holds only a loopback device.
    pub network_namespace: Option<std::path::PathBuf>,
}

/// The path of the agent inside the container.
pub(super) const AGENT: &str = "/tautline";

/// The kernel takes no smaller quota and no longer period (`min_cfs_quota_period`, `max_cfs_quota_period`).
const LEAST_QUOTA_US: f64 = 1000.0;
const LONGEST_PERIOD_US: u64 = 1_000_000;

/// The quota for this number of CPUs, with the shortest useful period.
pub(super) fn cpu_quota(cpus: f64) -> CpuQuota {
    let least_us = (LEAST_QUOTA_US / cpus).ceil() as u64;
    let period_us = (short_period(tick()).as_micros() as u64).max(least_us).min(LONGEST_PERIOD_US);
    CpuQuota { quota_us: (cpus * period_us as f64).round() as u64, period_us }
}
