//! The page of a trace.

use lab::traced::exits::Trace;
use report::html::exits::{Exits, Reason, Vcpu};

use super::table;

/// Renders one self-contained page.
pub fn page(trace: &Trace) -> String {
    report::html::exits::render(&exits(trace))
}

fn exits(trace: &Trace) -> Exits {
    let times = &trace.times;
    let rate = |count: u64| count as f64 / trace.seconds.max(1e-9);
    let whole: u64 = times.vcpus.iter().map(|v| v.guest_ns + v.kernel_ns + v.user_ns + v.halted_ns).sum();
    let reasons = times.reasons.iter().map(|reason| Reason {
        vcpu: reason.vcpu,
        name: reason.reason.clone(),
        per_second: rate(reason.count),
        at_most_ns: [0.5, 0.99, 1.0].map(|share| reason.at_most_ns(share)),
        share: reason.time_ns as f64 / whole.max(1) as f64,
    });
    let vcpus = times.vcpus.iter().map(|vcpu| Vcpu {
        number: vcpu.vcpu,
        guest_ns: vcpu.guest_ns,
        kernel_ns: vcpu.kernel_ns,
        user_ns: vcpu.user_ns,
        halted_ns: vcpu.halted_ns,
    });
    Exits {
        title: format!("Exits of process {}", trace.heading.pid),
        facts: table::heading(trace),
        reasons: reasons.collect(),
        vcpus: vcpus.collect(),
        counts: trace.statistics.iter().map(|count| (count.name.clone(), rate(count.count))).collect(),
        notes: table::notes(trace),
    }
}
