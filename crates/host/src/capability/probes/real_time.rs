use std::io;

use measure::Failure;
use nix::sys::resource::rlim_t;

use super::{Finding, Probe, cgroup_tree, or_unknown, text};
use crate::sys;

pub const PROBE: Probe = Probe {
    id: "real-time-scheduling",
    title: "Real-time scheduling",
    opens: "wake-up latencies in the real-time class, and vCPU threads that ordinary work cannot preempt",
    run,
};

const HIGHEST: i32 = 99;

fn run() -> Result<Finding, Failure> {
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

/// Sets SCHED_FIFO at this priority and looks whether the kernel has it so.
fn reached(priority: i32) -> io::Result<()> {
    sys::set_scheduler(libc::SCHED_FIFO, priority)?;
    let in_effect = sys::scheduler()?;
    sys::set_scheduler(libc::SCHED_OTHER, 0)?;
    match in_effect == (libc::SCHED_FIFO, priority) {
        true => Ok(()),
        false => Err(io::Error::other(format!("accepted, but policy and priority are {in_effect:?}"))),
    }
}

fn real_time_limit() -> i32 {
    // nix has no name for this one on every C library; /proc has it everywhere.
    let limits = text("/proc/self/limits");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime priority")).unwrap_or_default();
    let limit: rlim_t = match line.split_whitespace().next() {
        Some("unlimited") => rlim_t::MAX,
        Some(number) => number.parse().unwrap_or(0),
        None => 0,
    };
    limit.min(HIGHEST as rlim_t) as i32
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
