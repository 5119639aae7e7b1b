//! What a user may set of a container.

use measure::quota::{CpuQuota, short_period, tick};

/// Which program makes the container.
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
    /// The command's name.
    pub fn command(self) -> &'static str {
        match self {
            Runtime::Crun => "crun",
            Runtime::Runc => "runc",
            Runtime::Lxc => "lxc-execute",
        }
    }
}

/// What a user may set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The runtime; otherwise the first of crun, runc and LXC that really starts one.
    pub runtime: Option<Runtime>,
    /// CPU quota in CPUs, as 0.5; otherwise none.
    pub cpu_quota: Option<f64>,
    /// A network namespace to join; otherwise it has one of its own, with nothing but a loopback device.
    pub network_namespace: Option<std::path::PathBuf>,
}

/// Where the agent lies inside.
pub(super) const AGENT: &str = "/tautline";

/// The kernel takes no smaller quota and no longer period (`min_cfs_quota_period`, `max_cfs_quota_period`).
const LEAST_QUOTA_US: f64 = 1000.0;
const LONGEST_PERIOD_US: u64 = 1_000_000;

/// The quota that so many CPUs are, in a period as short as is of use.
pub(super) fn cpu_quota(cpus: f64) -> CpuQuota {
    let least_us = (LEAST_QUOTA_US / cpus).ceil() as u64;
    let period_us = (short_period(tick()).as_micros() as u64).max(least_us).min(LONGEST_PERIOD_US);
    CpuQuota { quota_us: (cpus * period_us as f64).round() as u64, period_us }
}
