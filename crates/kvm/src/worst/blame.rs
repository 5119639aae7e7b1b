//! Who had the time of a latency.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Latency;
use crate::events::{Context, Kind, Trace};

/// Priorities below this are real-time.
const REAL_TIME: i32 = 100;
/// So many timer interrupts within one latency are a storm.
const STORM: usize = 8;

/// Why a virtual CPU did not run its guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A real-time thread had its CPU.
    RealTimeThread(String),
    /// The kernel stopped the CPU (`stop_machine`, a migration).
    CpuStopper,
    /// Another thread had its CPU.
    OtherThread(String),
    /// Timer interrupts, many.
    TimerStorm,
    /// An interrupt or softirq, by name.
    Interrupt(String),
    /// Its memory was not there: a page fault, also of the guest.
    PageFault,
    /// User space handled an exit: an emulated device.
    EmulatedDevice,
    /// The CPU was idle or the thread's own work in the kernel.
    Kernel,
}

impl Cause {
    /// In words.
    pub fn text(&self) -> String {
        match self {
            Self::RealTimeThread(name) => format!("real-time thread {name} on its CPU"),
            Self::CpuStopper => "the kernel's CPU stopper (stop_machine)".into(),
            Self::OtherThread(name) => format!("thread {name} on its CPU"),
            Self::TimerStorm => "a storm of timer interrupts".into(),
            Self::Interrupt(name) => name.clone(),
            Self::PageFault => "page faults: memory that was not there or not locked".into(),
            Self::EmulatedDevice => "an emulated device: exits to user space".into(),
            Self::Kernel => "wake-up and entry in the kernel".into(),
        }
    }
}

/// A cause with its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// What.
    pub cause: Cause,
    /// How long, ns.
    pub ns: u64,
}

/// The causes of one latency, the longest first. Each stretch between two events counts for one.
pub fn blame(trace: &Trace, latency: &Latency) -> Vec<Blame> {
    let mut times: BTreeMap<Cause, u64> = BTreeMap::new();
    let first = trace.events.partition_point(|event| event.time < latency.began);
    let last = trace.events.partition_point(|event| event.time <= latency.ended);
    let window = &trace.events[first..last.max(first)];
    // The CPU on which it runs in the end; it waits for that one.
    let Some(cpu) = window.iter().rev().find(|event| event.pid == latency.pid).map(|event| event.cpu) else {
        return Vec::new();
    };
    let mut running = running_before(trace, first, cpu);
    let (mut interrupt, mut faulting, mut in_user): (Option<String>, bool, bool) = (None, false, false);
    let storm = window.iter().filter(|event| event.cpu == cpu && event.kind == Kind::Timer).count() >= STORM;
    let mut since = latency.began;
    for event in window.iter().filter(|event| event.cpu == cpu) {
        let cause = if let Some(name) = &interrupt {
            if storm && name == "timer" { Cause::TimerStorm } else { Cause::Interrupt(name.clone()) }
        } else if running.0 != latency.pid {
            waiting(trace, running)
        } else if faulting {
            Cause::PageFault
        } else if in_user {
            Cause::EmulatedDevice
        } else if storm {
            // Between the interrupts of a storm nothing gets far.
            Cause::TimerStorm
        } else {
            Cause::Kernel
        };
        *times.entry(cause).or_default() += event.time.saturating_sub(since);
        since = event.time;
        if event.context == Context::Task {
            interrupt = None;
        }
        match &event.kind {
            Kind::Switch { next, priority, .. } => running = (*next, *priority),
            Kind::Timer => interrupt = Some("timer".into()),
            Kind::IrqEntry { name } => interrupt = Some(format!("interrupt {name}")),
            Kind::SoftirqEntry { action } => interrupt = Some(format!("softirq {action}")),
            Kind::IrqExit | Kind::SoftirqExit => interrupt = None,
            Kind::PageFault { .. } if event.pid == latency.pid => faulting = true,
            Kind::UserspaceExit { .. } if event.pid == latency.pid => in_user = true,
            Kind::SyscallEnter { .. } | Kind::Entry { .. } if event.pid == latency.pid => {
                (faulting, in_user) = (false, false);
            }
            _ => {}
        }
    }
    let mut found: Vec<Blame> = times.into_iter().map(|(cause, ns)| Blame { cause, ns }).collect();
    found.sort_by_key(|blame| std::cmp::Reverse(blame.ns));
    found
}

fn running_before(trace: &Trace, index: usize, cpu: u32) -> (u32, i32) {
    let before = trace.events[..index].iter().rev().filter(|event| event.cpu == cpu);
    for event in before {
        if let Kind::Switch { next, priority, .. } = event.kind {
            return (next, priority);
        }
    }
    // No switch is known; whoever speaks first on it was there.
    let first = trace.events[index..].iter().find(|event| event.cpu == cpu);
    let pid = first.map_or(0, |event| match event.kind {
        Kind::Switch { previous, .. } => previous,
        _ => event.pid,
    });
    (pid, REAL_TIME + 20)
}

fn waiting(trace: &Trace, (pid, priority): (u32, i32)) -> Cause {
    let name = trace.name(pid);
    match pid {
        0 => Cause::Kernel,
        _ if name.starts_with("migration/") => Cause::CpuStopper,
        _ if priority < REAL_TIME => Cause::RealTimeThread(format!("{name} ({pid})")),
        _ => Cause::OtherThread(format!("{name} ({pid})")),
    }
}

/// What took longer in the worst than in the median: the causes by the difference, the largest first.
pub fn longer(worst: &[Blame], median: &[Blame]) -> Vec<Blame> {
    let usual = |cause: &Cause| median.iter().find(|blame| blame.cause == *cause).map_or(0, |blame| blame.ns);
    let mut found: Vec<Blame> = worst
        .iter()
        .map(|blame| Blame { cause: blame.cause.clone(), ns: blame.ns.saturating_sub(usual(&blame.cause)) })
        .filter(|blame| blame.ns > 0)
        .collect();
    found.sort_by_key(|blame| std::cmp::Reverse(blame.ns));
    found
}

#[cfg(test)]
#[path = "planted.rs"]
mod planted;
