//! The state of a thread at each point of a trace, and what uses its time.

use std::collections::HashMap;

use super::cause::Cause;
use crate::events::{Context, Event, Kind, Pid, Trace};

/// Priorities below this are real-time.
const REAL_TIME: i32 = 100;
const ORDINARY: i32 = REAL_TIME + 20;
/// The name of the timer's interrupt.
pub const TIMER: &str = "timer";

/// What is known of one CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    /// The thread that runs on the CPU, with its priority.
    running: Option<(Pid, i32)>,
    interrupt: Option<String>,
    softirq: Option<String>,
}

impl Cpu {
    fn see(&mut self, event: &Event) {
        if event.context == Context::Task {
            // A thread that acts in its own context runs on this CPU, and no interrupt is being handled.
            self.running = self.running.filter(|(pid, _)| *pid == event.pid).or(Some((event.pid, ORDINARY)));
            (self.interrupt, self.softirq) = (None, None);
        }
        match &event.kind {
            Kind::Switch { next, priority, .. } => self.running = Some((*next, *priority)),
            Kind::Timer => self.interrupt = Some(TIMER.into()),
            Kind::IrqEntry { name } => self.interrupt = Some(format!("interrupt {name}")),
            Kind::SoftirqEntry { action } => self.softirq = Some(format!("softirq {action}")),
            Kind::IrqExit | Kind::TimerExit => self.interrupt = None,
            Kind::SoftirqExit => (self.interrupt, self.softirq) = (None, None),
            _ => {}
        }
    }

    fn interrupt(&self) -> Option<&String> {
        self.interrupt.as_ref().or(self.softirq.as_ref())
    }
}

/// A thread of the host and the host's CPUs, after the events so far.
pub struct State<'a> {
    trace: &'a Trace,
    pid: Pid,
    cpus: HashMap<u32, Cpu>,
    /// The thread sleeps and has not been woken.
    asleep: bool,
    /// The thread waits for a page fault to be handled.
    faulting: bool,
    /// Whether an exit is being handled in user space.
    in_user: bool,
    /// Whether the guest's code runs.
    in_guest: bool,
    /// Whether the trace has exits of the guest.
    has_exits: bool,
}

impl<'a> State<'a> {
    pub fn new(trace: &'a Trace, pid: Pid) -> Self {
        let has_exits = trace.events.iter().any(|event| matches!(event.kind, Kind::Exit { .. }));
        Self {
            trace,
            pid,
            cpus: HashMap::new(),
            asleep: false,
            faulting: false,
            in_user: false,
            in_guest: false,
            has_exits,
        }
    }

    pub fn see(&mut self, event: &Event) {
        self.cpus.entry(event.cpu).or_default().see(event);
        match &event.kind {
            Kind::Switch { previous, runnable, .. } if *previous == self.pid => self.asleep = !runnable,
            Kind::Switch { next, .. } if *next == self.pid => self.asleep = false,
            Kind::Waking { target } if *target == self.pid => self.asleep = false,
            _ if event.pid != self.pid || event.context != Context::Task => {}
            Kind::PageFault { .. } => self.faulting = true,
            Kind::Exit { .. } => (self.faulting, self.in_user, self.in_guest) = (false, false, false),
            Kind::UserspaceExit { .. } => (self.faulting, self.in_user) = (false, true),
            Kind::SyscallEnter { .. } => self.faulting = false,
            Kind::Entry { .. } => {
                (self.faulting, self.in_user, self.in_guest) = (false, false, self.has_exits);
            }
            _ => {}
        }
    }

    /// What uses the thread's time now, if `cpu` is the CPU on which it runs next.
    pub fn cause(&self, cpu: u32, first_on: impl FnOnce() -> Pid) -> Cause {
        let known = self.cpus.get(&cpu);
        if self.asleep && self.faulting {
            return Cause::PageFault;
        }
        if self.asleep && self.in_user {
            return Cause::EmulatedDevice;
        }
        if let Some(name) = known.and_then(Cpu::interrupt) {
            return Cause::Interrupt(name.clone());
        }
        let running = known.and_then(|cpu| cpu.running).unwrap_or_else(|| (first_on(), ORDINARY));
        if running.0 != self.pid {
            self.other(running)
        } else if self.faulting {
            Cause::PageFault
        } else if self.in_user {
            Cause::EmulatedDevice
        } else if self.in_guest {
            Cause::Guest
        } else {
            Cause::Kernel
        }
    }

    fn other(&self, (pid, priority): (Pid, i32)) -> Cause {
        let name = self.trace.name(pid);
        match pid {
            0 => Cause::Kernel,
            _ if name.starts_with("migration/") => Cause::CpuStopper,
            _ if priority < REAL_TIME => Cause::RealTimeThread(format!("{name} ({pid})")),
            _ => Cause::OtherThread(format!("{name} ({pid})")),
        }
    }
}

/// A CPU of a guest, after the guest's events so far.
pub struct GuestState<'a> {
    trace: &'a Trace,
    vcpu: u32,
    cpu: Cpu,
}

impl<'a> GuestState<'a> {
    pub fn new(trace: &'a Trace, vcpu: u32) -> Self {
        Self { trace, vcpu, cpu: Cpu::default() }
    }

    pub fn see(&mut self, event: &Event) {
        if event.cpu == self.vcpu {
            self.cpu.see(event);
        }
    }

    /// What uses the guest's time while the guest runs.
    pub fn cause(&self) -> Cause {
        match (self.cpu.interrupt(), self.cpu.running) {
            (Some(name), _) => Cause::GuestInterrupt(name.clone()),
            (None, Some((pid, _))) if pid != 0 => {
                Cause::GuestThread(format!("{} ({pid})", self.trace.name(pid)))
            }
            _ => Cause::Guest,
        }
    }
}
