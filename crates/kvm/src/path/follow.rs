//! Finds where paths end in a trace, and the path to each end.

use super::step::{Arrow, Mode, Step};
use super::walk::{Chain, Origin, Walker, is_request};
use super::{Traffic, halted};
use crate::events::{Context, Kind, Pid, Target, Trace};

/// After the guest has the interrupt, its exits count for at most this many steps.
const HANDLER_STEPS: usize = 128;

/// Every packet, request or interrupt whose path is complete in the trace.
pub fn all(trace: &Trace, target: &Target, traffic: Traffic) -> Vec<Chain> {
    let completed = halted::with_injections(trace, target);
    let trace = completed.as_ref().unwrap_or(trace);
    let walker = Walker::new(trace, target);
    match traffic {
        Traffic::NetTx => sent(&walker, trace),
        Traffic::NetRx => injected(&walker, trace, Origin::Arrival),
        Traffic::Interrupt => injected(&walker, trace, Origin::Outside),
        Traffic::Block => {
            let chains = injected(&walker, trace, Origin::GuestExit);
            chains.into_iter().filter(|chain| chain.has_block).collect()
        }
    }
}

/// To the host's network stack: the first network event after each of the guest's requests.
fn sent(walker: &Walker, trace: &Trace) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        if !matches!(event.kind, Kind::Net { .. }) {
            continue;
        }
        let Some(mut chain) = walker.back(index, Origin::GuestExit) else { continue };
        if chains.iter().rev().take(8).any(|known| known.origin == chain.origin) {
            continue;
        }
        // The guest continues: its way back is also a cost of the packet.
        let vcpu = walker.event(chain.origin).pid;
        chain.steps.extend(way_back(walker, vcpu, chain.origin, &chain.steps));
        chains.push(chain);
    }
    chains
}

/// The steps of the virtual CPU from its request until it is in the guest again, without the known ones.
fn way_back(walker: &Walker, vcpu: Pid, request: usize, known: &[Step]) -> Vec<Step> {
    let mut found = Vec::new();
    for index in walker.after(vcpu, request) {
        if let Some(step) = walker.step(index) {
            let is_entry = step.arrow == Arrow::Entry;
            if !known.contains(&step) {
                found.push(step);
            }
            if is_entry || found.len() >= HANDLER_STEPS {
                break;
            }
        }
    }
    found
}

/// To the guest, by an interrupt.
fn injected(walker: &Walker, trace: &Trace, origin: Origin) -> Vec<Chain> {
    let mut chains = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        let Kind::Inject { vector } = event.kind else { continue };
        let Some(number) = walker.vcpus().get(&event.pid).copied() else { continue };
        let Some(entry) = next_entry(walker, event.pid, index) else { continue };
        let accepted = (0..index).rev().take(1 << 14).map(|at| (at, walker.event(at))).find(|(_, other)| {
            matches!(other.kind, Kind::Inject { vector: v } if v == vector && other.pid == event.pid)
                || matches!(other.kind, Kind::Accept { apic, vector: v } if v == vector && apic == number)
        });
        let chain = match accepted {
            Some((at, other)) if matches!(other.kind, Kind::Accept { .. }) => {
                from_acceptance(walker, at, event.pid, entry, origin)
            }
            _ => walker.back(entry, origin).map(|mut chain| {
                chain.steps.extend(walker.step(entry));
                chain
            }),
        };
        let Some(mut chain) = chain else { continue };
        chain.steps.extend(handler(walker, event.pid, entry));
        chains.push(chain);
    }
    chains
}

fn next_entry(walker: &Walker, vcpu: Pid, index: usize) -> Option<usize> {
    walker.after(vcpu, index).find(|at| matches!(walker.event(*at).kind, Kind::Entry { .. }))
}

/// From the place that made the interrupt pending, back to its origin and on to the guest's entry.
fn from_acceptance(walker: &Walker, at: usize, vcpu: Pid, entry: usize, origin: Origin) -> Option<Chain> {
    let accepted = walker.event(at);
    if accepted.pid == vcpu && accepted.context == Context::Task {
        let mut chain = walker.back(entry, origin)?;
        chain.steps.extend(walker.step(entry));
        return Some(chain);
    }
    let mut chain = walker.back(at, origin)?;
    if accepted.pid == vcpu {
        // The interrupt met this very guest: its exit is the first step.
        let exit = walker.before(vcpu, chain.origin).next();
        if let Some(step) = exit.and_then(|exit| walker.step(exit)).filter(|step| step.arrow == Arrow::Exit) {
            chain.began = step.at;
            chain.steps.insert(0, step);
        }
    }
    let cause = walker.context_place(at);
    for index in walker.after(vcpu, at).take_while(|index| *index <= entry) {
        let event = walker.event(index);
        match &event.kind {
            Kind::Switch { next, .. } if *next == vcpu => {
                let mut to = cause.clone();
                (to.who, to.mode, to.cpu) = (walker.who(vcpu), Mode::Kernel, event.cpu);
                chain.steps.push(Step {
                    from: cause.clone(),
                    to,
                    arrow: Arrow::WakeUp,
                    what: String::new(),
                    at: event.time,
                });
            }
            _ => chain.steps.extend(walker.step(index)),
        }
    }
    Some(chain)
}

/// The guest's own exits from the delivery of the interrupt until it halts, or meets the next interrupt.
fn handler(walker: &Walker, vcpu: Pid, entry: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for index in walker.after(vcpu, entry) {
        match &walker.event(index).kind {
            Kind::Inject { .. } => break,
            // Halted, or met by something of the host's.
            Kind::Exit { reason, .. } if !is_request(reason) => break,
            // The virtual CPU waited, for example for a lock of QEMU, or another thread had the CPU.
            Kind::Switch { next, .. } if *next == vcpu => {
                steps.extend(walker.switched_in(index, vcpu).map(|(step, _)| step));
            }
            _ => steps.extend(walker.step(index)),
        }
        if steps.len() >= HANDLER_STEPS {
            break;
        }
    }
    // Whole round trips only.
    while steps.last().is_some_and(|step| step.arrow != Arrow::Entry) {
        steps.pop();
    }
    steps
}
