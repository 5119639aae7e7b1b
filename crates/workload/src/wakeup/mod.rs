//! Measures the time from a timer's instant to user space, in the manner of cyclictest.
//!
//! A trial is a process of its own: its memory is locked and it runs under SCHED_FIFO, neither of which may
//! remain in the agent, and the load ends with the process.

mod timer;

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use linux::idle_states;
use linux::scheduler::{self, Policy};
use measure::{Failure, NoiseProbe, Outcome, Preemption};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::thread::set_current_timer_slack;

pub use crate::load::Load;

use crate::child_process;
use crate::protocol::Reply;
use crate::trial::Trial;

/// The load that runs at the same time as the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stress {
    None,
    Under(Load, LoadCpu),
}

/// The CPU of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadCpu {
    SameCpu,
    OtherCpu,
}

/// The CPU's idle states during the trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleStates {
    /// The kernel is asked to allow no idle state with a wake-up latency, as cyclictest does.
    HeldOff,
    /// The idle states that the machine has configured.
    AsConfigured,
}

/// The timer's period: cyclictest's usual one.
const PERIOD: Duration = Duration::from_millis(1);

/// Above interrupt threads (50) and below the kernel's own watchdogs (99), as people run cyclictest.
const PRIORITY: i32 = 80;

/// A trial that has not reported so long after its end never will.
const GRACE: Duration = Duration::from_secs(20);

/// Runs one trial.
pub(crate) fn measure(stress: Stress, idle_states: IdleStates, trial: &Trial) -> Result<Outcome, Failure> {
    let load = match stress {
        Stress::None => None,
        Stress::Under(load, LoadCpu::SameCpu) => Some((load, trial.cpu())),
        Stress::Under(load, LoadCpu::OtherCpu) => Some((load, trial.other_cpu()?)),
    };
    let body = || in_child(load, idle_states, trial).map_or_else(Reply::Failed, Reply::Done);
    match child_process::run("a wake-up trial", trial.budget * 2 + GRACE, body)? {
        Reply::Done(outcome) => Ok(outcome),
        Reply::Failed(failure) => Err(failure),
        _ => unreachable!("the child says one of both"),
    }
}

fn in_child(load: Option<(Load, usize)>, idle_states: IdleStates, trial: &Trial) -> Result<Outcome, Failure> {
    if let Some((load, cpu)) = load {
        load.start(cpu)?;
    }
    let mut run = timer::Run::new(PERIOD, trial.budget);
    let mut remarks = Vec::new();
    let mut want = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            remarks.push(format!("no {what}: {error}"));
        }
    };
    want("locked memory", mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(io::Error::from));
    // Only matters where SCHED_FIFO is refused: its timers have no slack anyway.
    want("timer slack of 1 ns", set_current_timer_slack(NonZeroU64::new(1)).map_err(io::Error::from));
    let awake = match idle_states {
        IdleStates::HeldOff => idle_states::hold_off().map(Some),
        IdleStates::AsConfigured => Ok(None),
    };
    let (awake, held) = match awake {
        Ok(held_off) => (held_off, Ok(())),
        Err(error) => (None, Err(error)),
    };
    want(&format!("hold on deep idle states ({})", idle_states::PATH), held);
    want("SCHED_FIFO", scheduler::set(Policy::Fifo(PRIORITY)));
    let probe = NoiseProbe::start(Preemption::OfThread);
    let result = run.go();
    // Reporting is no real-time work.
    let _ = scheduler::set(Policy::Normal);
    result.map_err(|error| Failure::new("sleeping until an instant", error, "allow clock_nanosleep"))?;
    drop(awake);
    run.into_outcome(remarks, probe.finish())
}
