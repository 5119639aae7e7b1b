use std::io;

use linux::scheduler::{self, Policy};
use measure::Failure;
use rustix::process::{Resource, getrlimit};

use super::cgroup_tree;
use crate::files::{or_unknown, text};
use crate::finding::Finding;

const HIGHEST: i32 = 99;

/// Sets SCHED_FIFO at the highest priority that the kernel allows to this thread.
///
/// # Errors
/// SCHED_FIFO is refused at every priority: no CAP_SYS_NICE, RLIMIT_RTPRIO is 0, or the cgroup has no real-time
/// budget; or the kernel reports another policy afterwards.
pub fn run() -> Result<Finding, Failure> {
    let highest = match reached(HIGHEST) {
        Ok(()) => HIGHEST,
        // An ordinary user may go as far as RLIMIT_RTPRIO, sched(7).
        Err(first) => (1..=real_time_limit())
            .rev()
            .find(|&priority| reached(priority).is_ok())
            .ok_or_else(|| refusal(first))?,
    };
    let mut detail = format!("SCHED_FIFO set, and read back at priority {highest}; {}", throttling());
    if text("/sys/kernel/realtime") == "1" {
        detail.push_str("; PREEMPT_RT kernel");
    }
    Ok(Finding::proven(detail))
}

/// Sets SCHED_FIFO at this priority and checks what the kernel reports.
fn reached(priority: i32) -> io::Result<()> {
    scheduler::set(Policy::Fifo(priority))?;
    let in_effect = scheduler::current()?;
    scheduler::set(Policy::Normal)?;
    match in_effect == Policy::Fifo(priority) {
        true => Ok(()),
        false => Err(io::Error::other(format!("accepted, but the policy is {in_effect:?}"))),
    }
}

fn real_time_limit() -> i32 {
    let limit = getrlimit(Resource::Rtprio).current; // none: unlimited
    limit.map_or(HIGHEST, |limit| limit.min(HIGHEST as u64) as i32)
}

fn refusal(error: io::Error) -> Failure {
    let tried = "sched_setscheduler(SCHED_FIFO)";
    match group_runtime_us() {
        // sched-rt-group: a cgroup without real-time budget may not hold real-time tasks at all.
        Some(0) => Failure::new(
            tried,
            format!("{error}; this cgroup's cpu.rt_runtime_us is 0 (real-time group scheduling is on)"),
            "give the cgroup a budget in cpu.rt_runtime_us, or boot with rt_group_sched=0",
        ),
        _ => Failure::new(
            tried,
            error,
            "run as root, or give the user `rtprio 99` in /etc/security/limits.d, \
             or the service LimitRTPRIO=99 or CAP_SYS_NICE",
        ),
    }
}

fn throttling() -> String {
    let runtime = text("/proc/sys/kernel/sched_rt_runtime_us");
    let period = or_unknown(text("/proc/sys/kernel/sched_rt_period_us"));
    let throttling = match runtime.as_str() {
        "-1" => "no throttling (sched_rt_runtime_us = -1)".to_owned(),
        runtime => {
            format!(
                "throttled to {} of every {period} µs (sched_rt_runtime_us)",
                or_unknown(runtime.to_owned())
            )
        }
    };
    match group_runtime_us() {
        Some(budget) => {
            format!("{throttling}; real-time group scheduling on, {budget} µs for this cgroup")
        }
        None => throttling,
    }
}

/// The budget of this process's cgroup; none where the kernel is without RT_GROUP_SCHED.
fn group_runtime_us() -> Option<i64> {
    let hierarchy = cgroup_tree::hierarchies().into_iter().find(|tree| tree.has("cpu"))?;
    text(hierarchy.own.join("cpu.rt_runtime_us")).parse().ok()
}
