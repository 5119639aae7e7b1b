//! From a timer's instant to user space, in the manner of cyclictest.
//!
//! A trial is a process of its own: its memory is locked and it runs under SCHED_FIFO, neither of which may
//! stick to the agent, and the load ends with it for sure.

mod load;
mod timer;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::time::Duration;

use linux::scheduler::{self, Policy};
use measure::{Failure, NoiseProbe, Outcome, Preemption};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::set_current_timer_slack;

pub(crate) use load::Load;

use crate::clock::now_ns;
use crate::protocol::Reply;
use crate::sys::Child;
use crate::trial::Trial;

/// What runs beside the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stress {
    None,
    Under(Load, LoadCpu),
}

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadCpu {
    SameCpu,
    OtherCpu,
}

/// What becomes of the CPU's idle states meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleStates {
    /// The kernel is asked for none with a wake-up latency, as by cyclictest.
    HeldOff,
    /// As whoever set this machine up wants them.
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
    let failed =
        |error| Failure::new("starting a process for a wake-up trial", error, "allow the agent to fork");
    let (from_child, to_parent) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let mut to_parent = File::from(to_parent);
    let child = Child::fork(|| {
        let reply = in_child(load, idle_states, trial).map_or_else(Reply::Failed, Reply::Done);
        i32::from(to_parent.write_all(reply.to_line().as_bytes()).is_err())
    })
    .map_err(failed)?;
    drop(to_parent);
    let reply = read_within(File::from(from_child), trial.budget * 2 + GRACE);
    drop(child);
    match reply?.map(|line| Reply::parse(&line)) {
        Some(Ok(Reply::Done(outcome))) => Ok(outcome),
        Some(Ok(Reply::Failed(failure))) => Err(failure),
        _ => Err(Failure::new(
            "a wake-up trial in a process of its own",
            "it ended without a result",
            "see whether something kills the agent's children (memory limit, real-time limit)",
        )),
    }
}

/// All that is written until the end; none where nothing was. Gives up after `limit`.
fn read_within(mut pipe: File, limit: Duration) -> Result<Option<String>, Failure> {
    let until_ns = now_ns() + limit.as_nanos() as u64;
    let mut text = Vec::new();
    let mut block = [0u8; 64 << 10];
    loop {
        let left = Timespec::try_from(Duration::from_nanos(until_ns.saturating_sub(now_ns()))).ok();
        let ready = poll(&mut [PollFd::new(&pipe, PollFlags::IN)], left.as_ref());
        if ready == Ok(0) {
            return Err(Failure::new(
                "waiting for a wake-up trial",
                format!("nothing after {} s", limit.as_secs()),
                "see whether this environment's timers work",
            ));
        }
        match pipe.read(&mut block) {
            Ok(0) if text.is_empty() => return Ok(None),
            Ok(0) => return Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Ok(count) => text.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::new("reading a wake-up trial's result", error, "try again")),
        }
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
        IdleStates::HeldOff => stay_awake().map(Some),
        IdleStates::AsConfigured => Ok(None),
    };
    let (awake, held) = match awake {
        Ok(file) => (file, Ok(())),
        Err(error) => (None, Err(error)),
    };
    want("hold on deep idle states (/dev/cpu_dma_latency)", held);
    want("SCHED_FIFO", scheduler::set(Policy::Fifo(PRIORITY)));
    let probe = NoiseProbe::start(Preemption::OfThread);
    let result = run.go();
    // Reporting is no real-time work.
    let _ = scheduler::set(Policy::Normal);
    result.map_err(|error| Failure::new("sleeping until an instant", error, "allow clock_nanosleep"))?;
    drop(awake);
    run.into_outcome(remarks, probe.finish())
}

/// Asks the kernel for no wake-up latency from idle states while the file is open (Linux, PM QoS), as
/// cyclictest does.
fn stay_awake() -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(file)
}
