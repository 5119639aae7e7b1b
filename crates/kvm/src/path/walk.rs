//! Walks backwards through a trace to find what caused an event.

use std::collections::{BTreeMap, HashMap};

use super::step::{Arrow, Mode, Place, Step};
use super::syscalls;
use crate::events::{Context, Event, Kind, Pid, Target, Trace};

/// A path has no more steps than this; longer ones are no path of one packet.
const MOST_STEPS: usize = 64;
/// The longest duration of a path, ns.
const LONGEST: u64 = 1_000_000_000;
/// Events of one packet's arrival follow each other within this, ns.
const ARRIVAL: u64 = 1_000_000;

/// Where a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// At the arrival of a packet at the host: its first network event, or the interrupt before it.
    Arrival,
    /// At an exit of the guest that requested something.
    GuestExit,
    /// At the first cause outside of the guest's threads: an interrupt, a timer, or another process. If the interrupt
    /// came while the guest ran, or the guest requested it, the walk ends at the guest's exit.
    Outside,
}

/// The sequence of causes of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// When the first cause occurred, ns.
    pub began: u64,
    /// In order.
    pub steps: Vec<Step>,
    /// Whether a block device took part.
    pub has_block: bool,
    /// The index of the event at which the walk ended.
    pub origin: usize,
}

/// A trace with its indexes.
pub struct Walker<'a> {
    trace: &'a Trace,
    target: &'a Target,
    /// For each thread, the events in its own context and its context switches.
    by_thread: HashMap<Pid, Vec<usize>>,
    by_cpu: HashMap<u32, Vec<usize>>,
    vcpus: BTreeMap<Pid, u32>,
}

impl<'a> Walker<'a> {
    /// Indexes a trace, in one pass.
    pub fn new(trace: &'a Trace, target: &'a Target) -> Self {
        let mut by_thread: HashMap<Pid, Vec<usize>> = HashMap::new();
        let mut by_cpu: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut vcpus = BTreeMap::new();
        for (index, event) in trace.events.iter().enumerate() {
            by_cpu.entry(event.cpu).or_default().push(index);
            match event.kind {
                Kind::Switch { previous, next, .. } => {
                    by_thread.entry(previous).or_default().push(index);
                    by_thread.entry(next).or_default().push(index);
                }
                _ if event.context == Context::Task => {
                    by_thread.entry(event.pid).or_default().push(index);
                }
                _ => {}
            }
            if let Kind::Entry { vcpu } | Kind::Exit { vcpu, .. } = event.kind
                && target.threads.contains(&event.pid)
            {
                vcpus.insert(event.pid, vcpu);
            }
        }
        Self { trace, target, by_thread, by_cpu, vcpus }
    }

    /// The threads that are virtual CPUs, with the CPUs' numbers.
    pub fn vcpus(&self) -> &BTreeMap<Pid, u32> {
        &self.vcpus
    }

    pub fn event(&self, index: usize) -> &'a Event {
        &self.trace.events[index]
    }

    /// A thread's own events and switches before event `index`, the latest first.
    pub fn before(&self, pid: Pid, index: usize) -> impl Iterator<Item = usize> + '_ {
        Self::earlier(self.by_thread.get(&pid), index)
    }

    /// The events of a thread after event `index`, in order.
    pub fn after(&self, pid: Pid, index: usize) -> impl Iterator<Item = usize> + '_ {
        let all = self.by_thread.get(&pid).map_or(&[][..], Vec::as_slice);
        all[all.partition_point(|other| *other <= index)..].iter().copied()
    }

    fn earlier(all: Option<&Vec<usize>>, index: usize) -> impl Iterator<Item = usize> + '_ {
        let all = all.map_or(&[][..], Vec::as_slice);
        all[..all.partition_point(|other| *other < index)].iter().rev().copied()
    }

    /// The name of a thread on a path.
    pub fn who(&self, pid: Pid) -> String {
        let name = self.trace.name(pid);
        match self.vcpus.get(&pid) {
            Some(vcpu) => format!("vCPU {vcpu}"),
            // The thread's name holds its owner's id.
            None if name.starts_with("vhost-") => "vhost".into(),
            None if name.starts_with("kworker") => "kworker".into(),
            None if self.target.threads.contains(&pid) => "QEMU".into(),
            None => name.to_owned(),
        }
    }

    fn place(&self, pid: Pid, mode: Mode, cpu: u32) -> Place {
        Place { who: self.who(pid), mode, cpu }
    }

    /// The step of an event in its thread's own context, if the event is a step.
    pub fn step(&self, index: usize) -> Option<Step> {
        let event = self.event(index);
        if event.context != Context::Task {
            return None;
        }
        let (arrow, from, to, what) = match &event.kind {
            Kind::Entry { .. } => (Arrow::Entry, Mode::Kernel, Mode::Guest, String::new()),
            Kind::Exit { reason, .. } => (Arrow::Exit, Mode::Guest, Mode::Kernel, self.exit(index, reason)),
            Kind::SyscallEnter { number } => {
                (Arrow::SystemCall, Mode::User, Mode::Kernel, syscalls::name(*number))
            }
            Kind::SyscallExit { number } => {
                (Arrow::Return, Mode::Kernel, Mode::User, syscalls::name(*number))
            }
            _ => return None,
        };
        let place = |mode| self.place(event.pid, mode, event.cpu);
        Some(Step { from: place(from), to: place(to), arrow, what, at: event.time })
    }

    /// An exit's reason, and what the guest did if that says more.
    fn exit(&self, index: usize, reason: &str) -> String {
        let event = self.event(index);
        let detail = self.after(event.pid, index).map(|index| &self.event(index).kind).take_while(|kind| {
            !matches!(kind, Kind::Entry { .. } | Kind::SyscallExit { .. } | Kind::Switch { .. })
        });
        for kind in detail {
            match kind {
                Kind::EndOfInterrupt => return format!("{reason}, end of interrupt"),
                Kind::Kvm { name } if name == "kvm_mmio" || name == "kvm_fast_mmio" => {
                    return format!("{reason}, MMIO");
                }
                Kind::Kvm { name } if name == "kvm_pio" => return format!("{reason}, port"),
                _ => {}
            }
        }
        reason.to_owned()
    }

    /// Finds what led to an event of a thread. `None` if no such origin is found.
    pub fn back(&self, from: usize, origin: Origin) -> Option<Chain> {
        let mut chain = Chain::default();
        let end = self.event(from).time;
        let (mut index, mut pid, mut context) = (from, self.event(from).pid, self.event(from).context);
        let mut seen = MOST_STEPS * 64;
        loop {
            if context != Context::Task {
                match self.leave_interrupt(index, origin) {
                    Left::Origin(at) => return self.finish(chain, at),
                    Left::Task(at) => {
                        index = at;
                        pid = self.event(at).pid;
                        // The event itself is looked at too.
                        index += 1;
                    }
                    Left::Device { done, issued } => {
                        chain.has_block = true;
                        chain.steps.push(Step {
                            from: self.context_place(issued),
                            to: self.context_place(done),
                            arrow: Arrow::Device,
                            what: "request".into(),
                            at: self.event(done).time,
                        });
                        (index, pid, context) = (issued, self.event(issued).pid, self.event(issued).context);
                        continue;
                    }
                    Left::Nothing => return None,
                }
            }
            let mut jump = None;
            for at in self.before(pid, index) {
                let event = self.event(at);
                seen = seen.checked_sub(1)?;
                if end - event.time > LONGEST || chain.steps.len() > MOST_STEPS {
                    return None;
                }
                match &event.kind {
                    Kind::Switch { next, .. } if *next == pid => {
                        jump = Some(self.switched_in(at, pid)?);
                        break;
                    }
                    Kind::Net { .. } if origin == Origin::Arrival => {
                        return self.finish(chain, self.arrival(at));
                    }
                    Kind::BlockIssue { .. } | Kind::BlockComplete { .. } => chain.has_block = true,
                    Kind::Exit { reason, .. } => {
                        chain.steps.extend(self.step(at));
                        // An interrupt that the guest asked for, or that met it, begins with its exit.
                        if origin == Origin::Outside || origin == Origin::GuestExit && is_request(reason) {
                            return self.finish(chain, at);
                        }
                    }
                    _ => chain.steps.extend(self.step(at)),
                }
            }
            let (step, at) = jump?;
            chain.steps.push(step);
            let cause = self.event(at);
            if origin == Origin::Outside
                && !self.target.threads.contains(&cause.pid)
                && cause.context == Context::Task
            {
                return self.finish(chain, at);
            }
            (index, pid, context) = (at, cause.pid, cause.context);
        }
    }

    fn finish(&self, mut chain: Chain, origin: usize) -> Option<Chain> {
        chain.began = self.event(origin).time;
        chain.origin = origin;
        chain.steps.reverse();
        Some(chain)
    }

    /// Why a thread runs since this switch: the step, and the event that made it runnable.
    pub fn switched_in(&self, at: usize, pid: Pid) -> Option<(Step, usize)> {
        let event = self.event(at);
        let to = self.place(pid, Mode::Kernel, event.cpu);
        let out = self.before(pid, at).find_map(|index| match self.event(index).kind {
            Kind::Switch { previous, runnable, .. } if previous == pid => Some((index, runnable)),
            _ => None,
        });
        if let Some((index, true)) = out {
            let by = self.place(event.pid, Mode::Kernel, event.cpu);
            return Some((
                Step { from: by, to, arrow: Arrow::Preemption, what: String::new(), at: event.time },
                index,
            ));
        }
        let first = out.map_or(0, |(index, _)| index);
        let waking = (first..at)
            .rev()
            .find(|index| matches!(self.event(*index).kind, Kind::Waking { target } if target == pid))?;
        let from = self.context_place(waking);
        Some((Step { from, to, arrow: Arrow::WakeUp, what: String::new(), at: event.time }, waking))
    }

    /// The place of an event: its thread, or the interrupt that interrupted the thread.
    pub fn context_place(&self, index: usize) -> Place {
        let event = self.event(index);
        if event.context == Context::Task {
            return self.place(event.pid, Mode::Kernel, event.cpu);
        }
        let name = Self::earlier(self.by_cpu.get(&event.cpu), index)
            .map(|index| self.event(index))
            .take_while(|other| other.context != Context::Task)
            .find_map(|other| match &other.kind {
                Kind::IrqEntry { name } => Some(format!("interrupt {name}")),
                Kind::SoftirqEntry { action } => Some(format!("softirq {action}")),
                Kind::Timer => Some("timer".into()),
                _ => None,
            });
        Place { who: name.unwrap_or_else(|| "interrupt".into()), mode: Mode::Interrupt, cpu: event.cpu }
    }

    /// Backwards out of an interrupt's or softirq's context.
    fn leave_interrupt(&self, index: usize, origin: Origin) -> Left {
        let start = self.event(index);
        // Interrupts within a softirq are unrelated to it; the interrupt before it has raised it.
        let mut in_softirq = start.context == Context::Softirq;
        let mut net = None;
        for at in Self::earlier(self.by_cpu.get(&start.cpu), index) {
            let event = self.event(at);
            match &event.kind {
                Kind::Net { .. } if event.context != Context::Task => net = Some(at),
                Kind::SoftirqEntry { .. } => in_softirq = false,
                // The guest's request is complete: the walk continues with the thread that handed it to the device.
                Kind::BlockComplete { device, sector } if origin == Origin::GuestExit => {
                    return match self.issue(at, device, *sector) {
                        Some(issued) => Left::Device { done: at, issued },
                        None => Left::Nothing,
                    };
                }
                Kind::IrqEntry { .. } | Kind::Timer if !in_softirq => {
                    let fits = origin == Origin::Outside || (origin == Origin::Arrival && self.is_device(at));
                    return if fits { Left::Origin(at) } else { Left::Nothing };
                }
                _ if event.context != Context::Task => {}
                _ => {
                    return match net {
                        Some(net) if origin == Origin::Arrival => Left::Origin(self.arrival(net)),
                        _ => Left::Task(at),
                    };
                }
            }
        }
        Left::Nothing
    }

    /// The event at which a completed request was handed to its device.
    fn issue(&self, done: usize, device: &str, sector: u64) -> Option<usize> {
        let end = self.event(done).time;
        (0..done).rev().take_while(|index| end - self.event(*index).time < LONGEST).find(|index| {
            matches!(&self.event(*index).kind, Kind::BlockIssue { device: d, sector: s } if d == device && *s == sector)
        })
    }

    fn is_device(&self, index: usize) -> bool {
        // Arm's interrupts between CPUs have events as those of devices.
        matches!(&self.event(index).kind, Kind::IrqEntry { name } if name != "IPI")
    }

    /// The first event of a packet's arrival, of which this is one.
    fn arrival(&self, index: usize) -> usize {
        let event = self.event(index);
        let mut first = index;
        for at in Self::earlier(self.by_cpu.get(&event.cpu), index) {
            let other = self.event(at);
            if event.time - other.time > ARRIVAL {
                break;
            }
            match other.kind {
                Kind::Net { .. } | Kind::IrqEntry { .. } => first = at,
                Kind::SoftirqEntry { .. } | Kind::SoftirqExit | Kind::IrqExit => {}
                _ => break,
            }
        }
        first
    }
}

enum Left {
    Origin(usize),
    Task(usize),
    /// A completed request of a block device, and where it was passed to the device.
    Device {
        done: usize,
        issued: usize,
    },
    Nothing,
}

/// Whether the guest exited by itself, to request something.
pub fn is_request(reason: &str) -> bool {
    !matches!(
        reason,
        "interrupt"
            | "intr"
            | "external_interrupt"
            | "vintr"
            | "interrupt_window"
            | "pending_interrupt"
            | "hlt"
            | "irq"
            | "wfx"
            | "preemption_timer"
            | "nmi"
            | "exception_nmi"
    )
}
