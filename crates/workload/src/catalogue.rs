//! All metrics that the agent can measure.

use measure::{CurvePoint, Direction, Group, MetricId, MetricSpec, Unit};

use crate::cpu::{Computation, Operation};
use crate::memory::{AccessPattern, FULL_BYTES, PageKind, QUICK_BYTES, Traffic, size_text};
use crate::os::{Birth, Call, Channel, Exchange, Poll, Ring};
use crate::wakeup::{IdleStates, Load, LoadCpu, Stress};
use crate::work::{Cores, Work};

/// The number of metrics to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Enough to cover every group in four minutes.
    Quick,
    /// More array sizes, process counts and working sets. Contains all of [`Profile::Quick`].
    Full,
}

/// The budget of the run from which a metric's trials are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetKind {
    /// The budget of throughputs and latencies: tens of milliseconds.
    Trial,
    /// The budget of wake-ups, whose number a timer limits: hundreds of milliseconds and more.
    Wakeup,
}

/// One metric that the agent can measure.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The metric.
    pub spec: MetricSpec,
    /// The budget of the metric's trials.
    pub budget: BudgetKind,
    /// The number of CPUs that a trial needs; with fewer CPUs the trial fails, and the failure says so.
    pub cpus_needed: usize,
    pub(crate) work: Work,
}

impl Entry {
    /// The number of CPUs that a trial uses if it is given `given` CPUs; it uses the first ones.
    pub fn cpus_used(&self, given: usize) -> usize {
        match self.work {
            Work::Compute { cores: Cores::All, .. } => given,
            _ => self.cpus_needed.min(given),
        }
    }
}

/// All metrics of a profile, in the order in which they are shown.
pub fn catalogue(profile: Profile) -> Vec<Entry> {
    let mut entries = Vec::new();
    cpu(&mut entries);
    memory(&mut entries, profile);
    os(&mut entries, profile);
    wakeup(&mut entries);
    entries
}

/// A timer without other load, with the idle states that the host has configured: the wake-up latency that a sleeping
/// guest gets. The metric is in no profile, because it measures the host's settings.
pub const WAKEUP_AS_CONFIGURED: &str = "wakeup.as-configured";

/// The metric with this name, from any profile.
pub fn find(id: &MetricId) -> Option<Entry> {
    let mut entries = catalogue(Profile::Full);
    let name = WAKEUP_AS_CONFIGURED.split_once('.').map_or(WAKEUP_AS_CONFIGURED, |(_, name)| name);
    let work = Work::Wakeup(Stress::None, IdleStates::AsConfigured);
    let as_configured = entry(Group::Wakeup, name, "timer, idle states as configured", Unit::Nanos, work);
    entries.push(Entry { budget: BudgetKind::Wakeup, ..as_configured });
    entries.into_iter().find(|entry| entry.spec.id == *id)
}

fn entry(group: Group, name: &str, title: impl Into<String>, unit: Unit, work: Work) -> Entry {
    let direction = match unit {
        Unit::Nanos => Direction::LowerIsBetter,
        Unit::BytesPerSecond | Unit::OpsPerSecond | Unit::Other(_) => Direction::HigherIsBetter,
    };
    let id = MetricId::new(format!("{group}.{name}"));
    let spec = MetricSpec { id, group, title: title.into(), unit, direction, curve: None };
    Entry { spec, budget: BudgetKind::Trial, cpus_needed: 1, work }
}

fn cpu(entries: &mut Vec<Entry>) {
    for (cores, name, title) in [(Cores::One, "one", "one CPU"), (Cores::All, "all", "all CPUs")] {
        entries.extend(Computation::ALL.into_iter().map(|computation| {
            let (id, words) = computation.names();
            let work = Work::Compute { computation, cores };
            entry(Group::Cpu, &format!("{id}.{name}"), format!("{words}, {title}"), Unit::OpsPerSecond, work)
        }));
    }
    entries.extend(Operation::ALL.into_iter().map(|operation| {
        let (id, words) = operation.names();
        entry(Group::Cpu, &format!("latency.{id}"), words, Unit::Nanos, Work::Operation(operation))
    }));
}

fn memory(entries: &mut Vec<Entry>, profile: Profile) {
    entries.extend(Traffic::ALL.into_iter().map(|traffic| {
        let (id, words) = traffic.names();
        let work = Work::Bandwidth(traffic);
        entry(Group::Memory, &format!("bandwidth.{id}"), words, Unit::BytesPerSecond, work)
    }));
    let sizes: &[usize] = match profile {
        Profile::Quick => &QUICK_BYTES,
        Profile::Full => &FULL_BYTES,
    };
    for (pages, pages_id) in [(PageKind::Small, "small"), (PageKind::Huge, "huge")] {
        for (order, order_id) in
            [(AccessPattern::Sequential, "sequential"), (AccessPattern::Random, "random")]
        {
            entries.extend(sizes.iter().map(|&bytes| {
                let size = size_text(bytes);
                let name = format!("latency.{order_id}.{pages_id}.{size}");
                let curve = format!("load latency, {order_id}, {pages_id} pages");
                let title = format!("{curve}, {size}");
                let work = Work::LoadLatency { order, pages, bytes };
                let mut entry = entry(Group::Memory, &name, title, Unit::Nanos, work);
                let x_title = "array size, bytes".into();
                entry.spec.curve = Some(CurvePoint { curve, x: bytes as f64, x_title });
                entry
            }));
        }
    }
}

fn os(entries: &mut Vec<Entry>, profile: Profile) {
    let mut add = |name: &str, title: String, unit: Unit, work: Work, cpus_needed: usize| {
        entries.push(Entry { cpus_needed, ..entry(Group::Os, name, title, unit, work) });
    };
    for call in Call::ALL {
        let (id, words) = call.names();
        add(id, words.into(), Unit::Nanos, Work::Call(call), 1);
    }
    for sockets in [10, 100, 500] {
        for (poll, id) in [(Poll::Select, "select"), (Poll::Epoll, "epoll")] {
            let title = format!("{id} on {sockets} TCP sockets");
            add(&format!("{id}.{sockets}"), title, Unit::Nanos, Work::Poll { poll, sockets }, 1);
        }
    }
    for (processes, working_set_bytes) in rings(profile) {
        let size = size_text(working_set_bytes);
        let title = format!("context switch, {processes} processes, {size} each");
        let work = Work::ContextSwitch(Ring { processes, working_set_bytes });
        add(&format!("context_switch.{processes}.{size}"), title, Unit::Nanos, work, 1);
    }
    for (channel, id, words) in
        [(Channel::Pipe, "pipe", "pipe"), (Channel::UnixStream, "unix", "AF_UNIX stream")]
    {
        for (exchange, name, title, unit, cpus) in [
            (Exchange::RoundTrip, "latency", "round trip", Unit::Nanos, 1),
            (Exchange::RoundTripAcross, "latency.other_cpu", "round trip to another CPU", Unit::Nanos, 2),
            (Exchange::Stream, "bandwidth", "bandwidth", Unit::BytesPerSecond, 1),
        ] {
            let work = Work::Exchange { channel, exchange };
            add(&format!("{id}.{name}"), format!("{words} {title}"), unit, work, cpus);
        }
    }
    for birth in Birth::ALL {
        let (id, words) = birth.names();
        add(id, words.into(), Unit::Nanos, Work::Process(birth), 1);
    }
}

fn wakeup(entries: &mut Vec<Entry>) {
    let mut add = |name: &str, title: &str, stress: Stress, cpus_needed: usize| {
        let entry = entry(Group::Wakeup, name, title, Unit::Nanos, Work::Wakeup(stress, IdleStates::HeldOff));
        entries.push(Entry { budget: BudgetKind::Wakeup, cpus_needed, ..entry });
    };
    add("idle", "timer, idle", Stress::None, 1);
    for (load, id, words) in [
        (Load::Cpu, "cpu", "CPU"),
        (Load::Memory, "memory", "memory"),
        (Load::Io, "io", "I/O"),
        (Load::Network, "network", "network"),
    ] {
        let title = |place| format!("timer, {words} load, {place}");
        add(&format!("{id}.same"), &title("the same CPU"), Stress::Under(load, LoadCpu::SameCpu), 1);
        add(&format!("{id}.other"), &title("another CPU"), Stress::Under(load, LoadCpu::OtherCpu), 2);
    }
}

/// Processes and working sets of the context switches.
fn rings(profile: Profile) -> Vec<(usize, usize)> {
    match profile {
        Profile::Quick => vec![(2, 0), (8, 16 << 10), (16, 64 << 10)],
        Profile::Full => {
            [2, 8, 16].into_iter().flat_map(|n| [0, 16 << 10, 64 << 10].map(|bytes| (n, bytes))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_begin_with_their_group() {
        let full = catalogue(Profile::Full);
        let ids: HashSet<&str> = full.iter().map(|entry| entry.spec.id.as_str()).collect();
        assert_eq!(ids.len(), full.len());
        for entry in &full {
            let (group, name) = entry.spec.id.as_str().split_once('.').unwrap();
            assert_eq!(group, entry.spec.group.name());
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte)), "{name}");
        }
        for entry in catalogue(Profile::Quick) {
            assert!(ids.contains(entry.spec.id.as_str()), "{} is missing in full", entry.spec.id);
        }
    }
}
