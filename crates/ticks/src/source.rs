//! The source of ticks: absolute times on a CPU, with a timer that wakes early and a spin until the instant.

use std::io;
use std::thread;
use std::time::Duration;

use clocks::{now_ns, sleep_until_ns};
use linux::cpus;
use linux::idle_states::{self, HeldOff};
use linux::scheduler::{self, Policy};
use measure::{Failure, Histogram};
use rustix::mm::{MlockAllFlags, mlockall};
use serde::{Deserialize, Serialize};

use crate::page::{Page, Step, Tick};
use crate::realign;

/// A receiver that is not ready by then does not come.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Nor does one end that has not aligned its clock again by then.
const DONE_WITHIN: Duration = Duration::from_secs(15);

/// The settings of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The time from one tick to the next.
    pub interval: Duration,
    /// How many.
    pub ticks: u64,
    /// How long before each instant the source stops sleeping and spins; with zero it relies on the timer.
    pub spin: Duration,
    /// The source's CPU; `None` for any.
    pub cpu: Option<usize>,
    /// The source's SCHED_FIFO priority; `None` for the ordinary policy.
    pub priority: Option<i32>,
}

/// The results of the source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Ticks sent.
    pub ticks: u64,
    /// Instants without a tick, because the source was late by a whole interval or more.
    pub skipped: u64,
    /// The time from due to sent.
    pub lateness: Histogram,
    /// Settings that the system refused.
    pub remarks: Vec<String>,
}

/// Answers the receiver until it is ready, sends all ticks, and answers again until the receiver is done. `ring`
/// sends the interrupt. The source ends early once `stopped` returns true.
///
/// # Errors
/// The receiver does not connect, or the interrupt cannot be sent.
pub fn run(
    page: &Page,
    plan: &Plan,
    ring: &dyn Fn() -> io::Result<()>,
    stopped: &dyn Fn() -> bool,
) -> Result<Sent, Failure> {
    let (_held_off, remarks) = prepare(page, plan);
    let mut sent = Sent { ticks: 0, skipped: 0, lateness: Histogram::new(), remarks };
    let outcome = answer_until(page, Step::Ready, READY_WITHIN, stopped).and_then(|()| {
        // The priority is raised only now: a real-time thread that answers all the time would be throttled (sched(7))
        // when ticks begin.
        if let Some(priority) = plan.priority
            && let Err(error) = scheduler::set(Policy::Fifo(priority))
        {
            sent.remarks.push(format!("source: no SCHED_FIFO {priority}: {error}"));
        }
        send(page, plan, ring, stopped, &mut sent)
    });
    // In any case, no receiver must wait for more ticks.
    page.end();
    let last =
        ring().map_err(|error| Failure::new("sending the last tick", error, "see whether the receiver runs"));
    let _ = scheduler::set(Policy::Normal);
    outcome.and(last)?;
    answer_until(page, Step::Done, DONE_WITHIN, stopped)?;
    Ok(sent)
}

/// Prepares the thread and the machine for sending ticks; each refusal is a remark.
fn prepare(page: &Page, plan: &Plan) -> (Option<HeldOff>, Vec<String>) {
    page.touch();
    let mut remarks = Vec::new();
    let mut want = |what: String, result: io::Result<()>| {
        if let Err(error) = result {
            remarks.push(format!("source: no {what}: {error}"));
        }
    };
    if let Some(cpu) = plan.cpu {
        want(format!("CPU {cpu}"), cpus::bind(&[cpu]));
    }
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    want("locked memory".into(), mlockall(all).map_err(io::Error::from));
    let (held_off, held) = match idle_states::hold_off() {
        Ok(held_off) => (Some(held_off), Ok(())),
        Err(error) => (None, Err(error)),
    };
    want(format!("hold on deep idle states ({})", idle_states::PATH), held);
    (held_off, remarks)
}

fn answer_until(page: &Page, step: Step, limit: Duration, stopped: &dyn Fn() -> bool) -> Result<(), Failure> {
    let start_ns = now_ns();
    while !page.has_reached(step) {
        if !page.exchange().answer() {
            thread::yield_now();
        }
        if stopped() || now_ns() - start_ns > limit.as_nanos() as u64 {
            let answer =
                if stopped() { "stopped".into() } else { format!("not within {} s", limit.as_secs()) };
            return Err(Failure::new(
                format!("waiting for the receiver of the ticks to be {step:?}"),
                answer,
                "see what the receiver says",
            ));
        }
    }
    Ok(())
}

fn send(
    page: &Page,
    plan: &Plan,
    ring: &dyn Fn() -> io::Result<()>,
    stopped: &dyn Fn() -> bool,
    sent: &mut Sent,
) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new("sending a tick", error, "see whether the receiver still runs");
    let (interval_ns, spin_ns) = (plan.interval.as_nanos() as u64, plan.spin.as_nanos() as u64);
    let mut due_ns = now_ns() + interval_ns;
    while sent.ticks < plan.ticks && !stopped() {
        sleep_until_ns(due_ns.saturating_sub(spin_ns)).map_err(failed)?;
        let sent_ns = loop {
            let now = now_ns();
            if now >= due_ns {
                break now;
            }
            std::hint::spin_loop();
        };
        sent.ticks += 1;
        page.put(Tick { number: sent.ticks, due_ns, sent_ns });
        ring().map_err(failed)?;
        let late_ns = sent_ns - due_ns;
        sent.lateness.record_ns(late_ns);
        let passed = late_ns / interval_ns;
        sent.skipped += passed;
        due_ns += (passed + 1) * interval_ns;
        if realign::is_between(sent.ticks - 1, sent.ticks) {
            // The receiver asks once it has run.
            let until_ns = sent_ns + interval_ns / 2;
            while now_ns() < until_ns {
                if !page.exchange().answer() {
                    std::hint::spin_loop();
                }
            }
        }
    }
    Ok(())
}
