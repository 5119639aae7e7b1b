//! Explains why the worst tick was later than others.

use kvm::events::{Kind, Pid};
use kvm::worst::{self, Blame, Latency};
use serde::{Deserialize, Serialize};

use super::merge::Host;
use super::point::{Points, Stage};
use super::summary::Summary;

/// The worst tick, and the causes of its delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blamed {
    /// Its number.
    pub number: u64,
    /// The time from due to the receiver running, ns.
    pub latency_ns: u64,
    /// By how much each stage was longer than its median, ns, the longest first.
    pub stages: Vec<(Stage, u64)>,
    /// What used the time of the first of these stages, from the host's trace, the longest first.
    pub parts: Vec<Blame>,
}

/// Explains the latest tick. `source` is the thread that sends.
pub fn blame(points: &[Points], summary: &Summary, source: Pid, host: Option<Host<'_>>) -> Option<Blamed> {
    let worst = points.iter().max_by_key(|points| points.latency_ns())?;
    // Events after the receiver runs make no tick late.
    let until_there = Stage::ALL.into_iter().filter(|stage| *stage != Stage::Work);
    let longer = |stage: Stage| {
        let usual_ns = summary.times(stage)?.p50_ns;
        Some((stage, worst.ns(stage)?.saturating_sub(usual_ns)))
    };
    let mut stages: Vec<_> = until_there.filter_map(longer).filter(|(_, ns)| *ns > 0).collect();
    stages.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let parts = match (stages.first(), host) {
        (Some((stage, _)), Some(host)) => parts(worst, *stage, source, host),
        _ => Vec::new(),
    };
    Some(Blamed { number: worst.number, latency_ns: worst.latency_ns(), stages, parts })
}

/// Who had the time of a stage.
fn parts(worst: &Points, stage: Stage, source: Pid, host: Host<'_>) -> Vec<Blame> {
    let Some((began, ended)) = worst.span(stage) else { return Vec::new() };
    // The source's first own event is that of the interrupt.
    let ended = if stage == Stage::Sent { worst.ended(Stage::Irqfd).unwrap_or(ended) } else { ended };
    let vcpu = || {
        let entries = host.trace.events.iter().filter(|event| event.time >= began);
        let mut vcpus = entries
            .filter(|event| matches!(event.kind, Kind::Entry { .. }) && host.threads.contains(&event.pid));
        vcpus.next().map(|event| event.pid)
    };
    // Until KVM has the interrupt, it is the source that runs; then the virtual CPU does.
    let pid = if stage <= Stage::Irqfd { Some(source) } else { vcpu() };
    pid.map_or_else(Vec::new, |pid| worst::blame(host.trace, &Latency { pid, vcpu: 0, began, ended }))
}
