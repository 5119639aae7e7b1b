//! The guest's end: a task that is due at every interval and announces that to the host.

use std::io;
use std::time::Duration;

use clocks::{Alignment, FarClock, now_ns};
use linux::scheduler::{self, Policy};
use linux::{cpus, interrupt};
use measure::{Failure, Histogram};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::daemon::sleep_until;
use crate::hints::Hints;
use crate::page::Page;

/// How often the clocks are aligned anew, and how long that may take between two runs of the task.
const ALIGN_EVERY: Duration = Duration::from_secs(1);
const ALIGN_WITHIN: Duration = Duration::from_micros(300);

/// The settings of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The time between two instants at which the task is due.
    pub interval: Duration,
    /// How often.
    pub runs: u64,
    /// The CPU time of the task's work.
    pub work: Duration,
    /// The vCPU to run on, whose hints the task sets.
    pub vcpu: usize,
    /// The task's SCHED_FIFO priority in the guest; `None` for the ordinary policy.
    pub priority: Option<i32>,
    /// Whether the task gives hints. The task also runs without these hints.
    pub says: bool,
}

/// The results of the task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// How often the task ran.
    pub runs: u64,
    /// Instants that were skipped because the task was late by a whole interval or more.
    pub skipped: u64,
    /// The delay from due to running, by the guest's clock.
    pub late: Histogram,
    /// The bound of the error of the times given to the host, ns; 0 if none were given.
    pub clock_error_ns: u64,
    /// Settings that the system refused.
    pub remarks: Vec<String>,
}

/// Runs the task until a signal comes ([`interrupt::is_set`]).
///
/// # Errors
/// The host does not answer, or sleeping on the clock is refused.
pub fn run(page: &Page, plan: &Plan) -> Result<Done, Failure> {
    let mut done =
        Done { runs: 0, skipped: 0, late: Histogram::new(), clock_error_ns: 0, remarks: Vec::new() };
    let mut want = |what: String, result: io::Result<()>| {
        if let Err(error) = result {
            done.remarks.push(format!("no {what}: {error}"));
        }
    };
    want(format!("CPU {}", plan.vcpu), cpus::bind(&[plan.vcpu]));
    let mut clock = if plan.says { Some(FarClock::find(&page.exchange)?) } else { None };
    if let Some(priority) = plan.priority {
        want(format!("SCHED_FIFO {priority}"), scheduler::set(Policy::Fifo(priority)));
    }
    repeat(page, plan, clock.as_mut(), &mut done);
    let _ = scheduler::set(Policy::Normal);
    if let Some(clock) = clock {
        done.clock_error_ns = clock.error_ns(&page.exchange)?;
    }
    Ok(done)
}

fn repeat(page: &Page, plan: &Plan, mut clock: Option<&mut FarClock>, done: &mut Done) {
    let hints: Option<&Hints> = plan.says.then_some(&*page.hints);
    let interval_ns = plan.interval.as_nanos() as u64;
    let mut due_ns = now_ns() + 2 * interval_ns;
    let mut aligned_ns = now_ns();
    for _ in 0..plan.runs {
        if let (Some(hints), Some(clock)) = (hints, &clock) {
            hints.set_due_ns(plan.vcpu, clock.far_ns(due_ns));
            hints.set_runs(plan.vcpu, false);
        }
        sleep_until(due_ns);
        if interrupt::is_set() {
            break;
        }
        let late_ns = now_ns().saturating_sub(due_ns);
        if let Some(hints) = hints {
            hints.set_runs(plan.vcpu, true);
        }
        done.runs += 1;
        done.late.record_ns(late_ns);
        work(plan.work);
        let passed = late_ns / interval_ns;
        done.skipped += passed;
        due_ns += (passed + 1) * interval_ns;
        let now = now_ns();
        if let Some(clock) = clock.as_deref_mut()
            && now.saturating_sub(aligned_ns) > ALIGN_EVERY.as_nanos() as u64
            && due_ns > now + 2 * ALIGN_WITHIN.as_nanos() as u64
        {
            let found = Alignment::find_until(&page.exchange, now + ALIGN_WITHIN.as_nanos() as u64);
            found.into_iter().for_each(|found| clock.again(found));
            aligned_ns = now;
        }
    }
    if let Some(hints) = hints {
        hints.set_due_ns(plan.vcpu, 0);
        hints.set_runs(plan.vcpu, false);
    }
}

/// Uses `time` of CPU time.
fn work(time: Duration) {
    let used = || {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
    };
    if !time.is_zero() {
        let until = used() + time;
        while used() < until {
            std::hint::spin_loop();
        }
    }
}
