//! `tautline kvm path`: a packet's steps.

use std::time::{Duration, Instant};

use kvm::costs::Costs;
use kvm::events::Target;
use kvm::path::explain::Explanation;
use kvm::path::known::{self, Device};
use kvm::path::{Summary, Traffic, follow};
use linux::progress::Progress;
use measure::Failure;
use serde::{Deserialize, Serialize};

use super::record::{Heading, record};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-path/1";

/// The results file of `tautline kvm path`.
#[derive(Serialize, Deserialize)]
pub struct Report {
    /// Version, start and machine of the run, and the process whose guest was traced.
    #[serde(flatten)]
    pub heading: Heading,
    /// Which packets were followed.
    pub followed: Traffic,
    /// How long was traced, in seconds.
    pub seconds: f64,
    /// Events that the kernel's buffers had no room for.
    pub lost: u64,
    /// Lines of the trace that contain no known event.
    pub unknown: u64,
    /// The packets' steps, if there was such a packet.
    #[serde(flatten)]
    pub found: Option<Summary>,
    /// The kind of device on the path.
    pub device: Option<Device>,
    /// The number of steps that published work counts for such a path.
    pub published_steps: Option<usize>,
    /// Steps that differ from the published ones, and why they occur.
    pub differences: Vec<String>,
    /// The cost of each step, where it is known.
    pub explanation: Option<Explanation>,
}

/// Traces the machine for `time`, and follows packets of this kind. `explain` holds unit costs of this machine,
/// and the size of a packet in bytes.
///
/// # Errors
/// The process does not exist, or the kernel refuses the trace.
pub fn measure(
    (pid, time): (u32, Duration),
    followed: Traffic,
    explain: Option<(&Costs, usize)>,
    progress: &Progress,
) -> Result<Report, Failure> {
    let heading = Heading::now(SCHEMA, pid)?;
    let target = Target::find(pid)?;
    let begin = Instant::now();
    let trace = record(pid, time, progress)?;
    let found = Summary::of(&follow::all(&trace, &target, followed));
    let device = Device::of(found.as_ref(), target.has_vfio);
    let explained = found.as_ref().zip(explain);
    Ok(Report {
        heading,
        followed,
        seconds: begin.elapsed().as_secs_f64(),
        lost: trace.lost,
        unknown: trace.unknown,
        device,
        published_steps: device.and_then(|device| known::published(followed, device)),
        differences: found.as_ref().map(known::differences).unwrap_or_default(),
        explanation: explained.map(|(found, (costs, bytes))| Explanation::new(found, costs, bytes)),
        found,
    })
}
