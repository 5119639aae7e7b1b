//! `tautline kvm worst`: explains what took the time of the longest latency.

mod follow;
mod inside;

use kvm::worst::{Blame, Checked, Fit, Kept, Latency, Path, Watched, longer};
use serde::{Deserialize, Serialize};

use super::record::Heading;
pub use follow::{Found, Watch, follow};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-worst/1";

/// The results file of `tautline kvm worst`.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Version, start and machine of the run, and the process whose guest was watched.
    #[serde(flatten)]
    pub heading: Heading,
    /// The latency whose maximum was explained.
    pub watched: Watched,
    /// How long was watched, in seconds.
    #[serde(default)]
    pub seconds: f64,
    /// The number of latencies seen.
    pub count: u64,
    /// The median, ns.
    pub p50_ns: u64,
    /// ns, of 99.9 %.
    pub p999_ns: u64,
    /// The maximum, ns.
    pub max_ns: u64,
    /// Events that the kernel's buffers had no room for.
    pub lost: u64,
    /// The longest.
    pub worst: Option<Latency>,
    /// How well the guest's clock fits the host's, if the guest was recorded too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// What used the time of the maximum, summed by cause.
    pub worst_parts: Vec<Blame>,
    /// What used the time of the median, summed by cause.
    pub median_parts: Vec<Blame>,
    /// The parts of the maximum in the order of time; if there are many, only the longest.
    #[serde(default)]
    pub worst_path: Vec<Blame>,
    /// The parts of the median in the order of time; if there are many, only the longest.
    #[serde(default)]
    pub median_path: Vec<Blame>,
    /// Causes that took longer in the maximum than in the median, the largest difference first.
    pub longer: Vec<Blame>,
    /// All limits of the budget, with the values found.
    #[serde(default)]
    pub limits: Vec<Checked>,
    /// Limits that were exceeded.
    pub missed: Vec<Checked>,
}

impl Report {
    /// The report of what was found.
    pub fn new(heading: Heading, watched: Watched, found: &Found, limits: Vec<Checked>) -> Self {
        let kept: &Kept = found.of(watched);
        let all = kept.histogram();
        let parts = |path: Option<&Path>| path.map_or_else(Vec::new, |path| path.parts.clone());
        let stretches = |path: Option<&Path>| path.map_or_else(Vec::new, |path| path.stretches.clone());
        let (worst_parts, median_parts) = (parts(kept.worst_path()), parts(kept.median_path()));
        Report {
            heading,
            watched,
            seconds: found.elapsed.as_secs_f64(),
            count: all.count(),
            p50_ns: all.median_ns(),
            p999_ns: all.quantile_ns(0.999),
            max_ns: all.max_ns(),
            lost: found.lost,
            worst: kept.worst(),
            fit: found.fit,
            longer: longer(&worst_parts, &median_parts),
            worst_parts,
            median_parts,
            worst_path: stretches(kept.worst_path()),
            median_path: stretches(kept.median_path()),
            missed: limits.iter().filter(|limit| !limit.holds()).cloned().collect(),
            limits,
        }
    }

    /// Whether no limit was exceeded.
    pub fn holds(&self) -> bool {
        self.missed.is_empty()
    }
}
