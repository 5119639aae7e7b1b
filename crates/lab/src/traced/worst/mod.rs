//! `tautline kvm worst`: what took the time of the longest latency.

mod follow;
mod inside;

use kvm::worst::{Blame, Checked, Fit, Kept, Latency, Path, Watched, longer};
use serde::{Deserialize, Serialize};

use super::record::Heading;
pub use follow::{Found, Watch, follow};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-worst/1";

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Where the file comes from, and whose guest was watched.
    #[serde(flatten)]
    pub heading: Heading,
    /// The latency whose longest was looked into.
    pub watched: Watched,
    /// For how long.
    #[serde(default)]
    pub seconds: f64,
    /// How many were seen.
    pub count: u64,
    /// ns, of half of them.
    pub p50_ns: u64,
    /// ns, of 99.9 %.
    pub p999_ns: u64,
    /// ns, of the longest.
    pub max_ns: u64,
    /// Events that the kernel's buffers had no room for.
    pub lost: u64,
    /// The longest.
    pub worst: Option<Latency>,
    /// How well the guest's clock fits the host's, where the guest was recorded too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// Who had the time of the worst, and of the median.
    pub worst_parts: Vec<Blame>,
    /// The parts of the median.
    pub median_parts: Vec<Blame>,
    /// The stretches of the worst in the order of time; of many the longest.
    #[serde(default)]
    pub worst_path: Vec<Blame>,
    /// The stretches of the median in the order of time; of many the longest.
    #[serde(default)]
    pub median_path: Vec<Blame>,
    /// What was longer in the worst, the largest first.
    pub longer: Vec<Blame>,
    /// All limits of the budget beside what was found, and those that do not hold.
    #[serde(default)]
    pub limits: Vec<Checked>,
    /// Limits that do not hold.
    pub missed: Vec<Checked>,
}

impl Report {
    /// What is written of what was found.
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

    /// Whether all limits do.
    pub fn holds(&self) -> bool {
        self.missed.is_empty()
    }
}
