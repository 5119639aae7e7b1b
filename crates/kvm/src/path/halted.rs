//! Interrupts that wake a halted virtual CPU of an Arm host. KVM on Arm has no event of an injection: its interrupt
//! controller hands the pending interrupts to the hardware at each entry.

use std::collections::{BTreeSet, HashMap};

use crate::events::{Event, Kind, Pid, Target, Trace};

/// The class of the exceptions by which a guest waits for an interrupt or an event, as KVM names it.
const HALT: &str = "wfx";

/// The trace with an injection before each entry at which a virtual CPU of the target goes on after it had halted and
/// its thread was woken. Virtual CPUs get numbers in the order of their threads' ids, because events on Arm have none.
/// A trace without such a halt is unchanged.
pub fn with_injections(trace: &Trace, target: &Target) -> Option<Trace> {
    let halts = |event: &Event| matches!(&event.kind, Kind::Exit { reason, .. } if reason == HALT);
    if !trace.events.iter().any(halts) {
        return None;
    }
    let is_own = |event: &&Event| {
        matches!(event.kind, Kind::Entry { .. } | Kind::Exit { .. }) && target.threads.contains(&event.pid)
    };
    let threads: BTreeSet<Pid> = trace.events.iter().filter(is_own).map(|event| event.pid).collect();
    let mut states: HashMap<Pid, State> = HashMap::new();
    let mut events = Vec::with_capacity(trace.events.len());
    for event in &trace.events {
        let mut event = event.clone();
        match &mut event.kind {
            Kind::Switch { next, .. } => {
                states.entry(*next).and_modify(|state| state.is_woken = state.is_halted);
            }
            Kind::Entry { vcpu } if threads.contains(&event.pid) => {
                *vcpu = threads.range(..event.pid).count() as u32;
                if states.remove(&event.pid).is_some_and(|state| state.is_woken) {
                    // The number of the interrupt is unknown.
                    events.push(Event { kind: Kind::Inject { vector: 0 }, ..event.clone() });
                }
            }
            Kind::Exit { vcpu, reason } if threads.contains(&event.pid) => {
                *vcpu = threads.range(..event.pid).count() as u32;
                states.insert(event.pid, State { is_halted: reason == HALT, is_woken: false });
            }
            _ => {}
        }
        events.push(event);
    }
    Some(Trace { events, ..trace.clone() })
}

/// A virtual CPU outside of its guest.
struct State {
    is_halted: bool,
    is_woken: bool,
}
