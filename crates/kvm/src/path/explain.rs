//! The cost of a packet by its steps: transitions times unit cost, copies, scheduling, and the unexplained rest.

use serde::{Deserialize, Serialize};

use super::step::Arrow;
use super::summary::Summary;
use crate::costs::Costs;

/// Above this share the rest counts as large.
pub const LARGE_REST: f64 = 0.2;
/// A copy of a packet, ns for each byte: one cache line in 8 ns. An assumption, shown as one.
const COPY_NS: f64 = 0.125;

/// A part of the cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What.
    pub what: String,
    /// How often.
    pub count: usize,
    /// Each, ns.
    pub unit_ns: f64,
    /// Where the unit cost comes from.
    pub source: String,
}

impl Part {
    /// The total of this part, ns.
    pub fn ns(&self) -> f64 {
        self.count as f64 * self.unit_ns
    }
}

/// The median packet's time, divided into parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The parts.
    pub parts: Vec<Part>,
    /// The packet's time, ns.
    pub total_ns: f64,
    /// The time that no part explains, in ns; negative if the parts exceed the total.
    pub rest_ns: f64,
}

impl Explanation {
    /// Divides the time of a path by this machine's unit costs. The cost of copying `bytes` bytes is included once if
    /// the device copies.
    pub fn new(summary: &Summary, costs: &Costs, bytes: usize) -> Self {
        let unit = |id: &str| {
            let row = costs.rows.iter().find(|row| row.id == id)?;
            Some(row.latency.as_ref()?.median_ns() as f64)
        };
        let mut parts = Vec::new();
        let mut add = |what: &str, count: usize, row: &str| {
            if let (1.., Some(unit_ns)) = (count, unit(row)) {
                parts.push(Part { what: what.into(), count, unit_ns, source: format!("kvm costs: {row}") });
            }
        };
        let steps = &summary.steps;
        let count = |is: &dyn Fn(&super::Arrows) -> bool| steps.iter().filter(|step| is(step)).count();
        let is_exit = |step: &super::Arrows| step.arrow == Arrow::Exit;
        let to_user = count(&|step| step.arrow == Arrow::Return && step.what == "ioctl");
        let ends = count(&|step| is_exit(step) && step.what.contains("end of interrupt"));
        let exits = count(&is_exit);
        add("exit to user space and entry", to_user.min(exits), "mmio-write-user");
        add("end of interrupt", ends, "eoi");
        add("other exit and entry", exits.saturating_sub(to_user.min(exits) + ends), "cpuid");
        let to_vcpu = count(&|step| step.arrow == Arrow::WakeUp && step.to.who.starts_with("vCPU"));
        let wake_ups = count(&|step| step.arrow == Arrow::WakeUp);
        add("scheduling: wake-up of the guest", to_vcpu, "wake-up-sleeping");
        add("scheduling: wake-up of a thread", wake_ups - to_vcpu, "ioeventfd-to-thread");
        if bytes > 0 {
            parts.push(Part {
                what: "copy, byte by byte".into(),
                count: bytes,
                unit_ns: COPY_NS,
                source: "assumed: 8 ns for each line of 64 bytes".into(),
            });
        }
        let total_ns = summary.median_ns as f64;
        let rest_ns = total_ns - parts.iter().map(Part::ns).sum::<f64>();
        Self { parts, total_ns, rest_ns }
    }

    /// Whether the rest is so large that the cost is not explained.
    pub fn is_rest_large(&self) -> bool {
        self.rest_ns.abs() > LARGE_REST * self.total_ns
    }
}
