use std::hint::black_box;

use measure::Failure;
use rustix::time::{ClockId, clock_gettime};

use crate::files::{or_unknown, text};
use crate::finding::Finding;

const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
/// Reading the clock without entering the kernel takes some tens of nanoseconds; entering it, or leaving
/// the guest, several hundreds and more.
const CHEAP_NS: f64 = 120.0;

/// Measures how long a reading of CLOCK_MONOTONIC takes, in ns, and names the clock source.
///
/// # Errors
/// The probe never fails: a slow clock source makes a partial finding.
pub fn run() -> Result<Finding, Failure> {
    let current = or_unknown(text(format!("{FOLDER}/current_clocksource")));
    let available = or_unknown(text(format!("{FOLDER}/available_clocksource")));
    let cost_ns = cost_ns();
    let detail =
        format!("{current} of [{available}]; clock_gettime(CLOCK_MONOTONIC) takes {cost_ns:.0} ns (median)");
    let direct = matches!(current.as_str(), "tsc" | "arch_sys_counter");
    Ok(match (direct, cost_ns <= CHEAP_NS) {
        (true, true) => Finding::proven(detail),
        (true, false) => Finding::partial(
            format!("{detail}, as much as a system call"),
            "look whether the vDSO is disabled (vdso=0) or the machine is emulated",
        ),
        (false, cheap) => {
            let how = if cheap {
                "read in user space"
            } else {
                "each reading is a system call or leaves the guest"
            };
            let remedy = if available.split(' ').any(|name| name == "tsc") {
                "echo tsc into current_clocksource, after asking why the kernel did not choose it (dmesg)"
            } else {
                "give the guest an invariant TSC, or see in dmesg why the kernel marked it unstable"
            };
            Finding::partial(format!("{detail}; {how}"), remedy)
        }
    })
}

fn cost_ns() -> f64 {
    const BATCHES: usize = 501;
    const READINGS: u32 = 100;
    let now = || clock_gettime(ClockId::Monotonic);
    let mut costs = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let start = now();
        for _ in 0..READINGS {
            black_box(now());
        }
        let elapsed = now() - start;
        let ns = elapsed.tv_sec as f64 * 1e9 + elapsed.tv_nsec as f64;
        costs.push(ns / f64::from(READINGS + 1));
    }
    costs.sort_by(f64::total_cmp);
    costs[BATCHES / 2]
}
