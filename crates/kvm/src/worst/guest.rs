//! What a guest's own trace says: from an interrupt to the thread that it woke, in user space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use crate::events::{Context, Event, Kind, Pid};

/// Threads that were woken and have not come to user space yet: the kernel's own never do.
const MOST_WOKEN: usize = 4096;

/// A thread of a guest that an interrupt has woken is in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The guest's CPU that had the interrupt.
    pub cpu: u32,
    /// The thread, as the guest numbers it.
    pub pid: Pid,
    /// When the guest's kernel began to handle it.
    pub handled: u64,
    /// When the thread came to user space.
    pub arrived: u64,
}

/// Finds them in a guest's events as they come.
#[derive(Clone, Debug, Default)]
pub struct GuestFollower {
    /// Of each CPU, since when it handles an interrupt, with what comes behind it.
    handling: BTreeMap<u32, u64>,
    woken: BTreeMap<Pid, (u32, u64)>,
}

impl GuestFollower {
    /// What ends here.
    pub fn follow(&mut self, event: &Event) -> Option<Arrival> {
        if event.context == Context::Task && !is_interrupt(&event.kind) {
            self.handling.remove(&event.cpu);
        }
        match event.kind {
            Kind::IrqEntry { .. } | Kind::Timer => {
                self.handling.entry(event.cpu).or_insert(event.time);
            }
            Kind::Waking { target } => {
                let handled = *self.handling.get(&event.cpu)?;
                if self.woken.len() < MOST_WOKEN {
                    self.woken.entry(target).or_insert((event.cpu, handled));
                }
            }
            Kind::SyscallExit { .. } => {
                let (cpu, handled) = self.woken.remove(&event.pid)?;
                return Some(Arrival { cpu, pid: event.pid, handled, arrived: event.time });
            }
            _ => {}
        }
        None
    }

    /// Events are missing here.
    pub fn gap(&mut self) {
        self.handling.clear();
        self.woken.clear();
    }
}

fn is_interrupt(kind: &Kind) -> bool {
    matches!(kind, Kind::IrqEntry { .. } | Kind::Timer | Kind::SoftirqEntry { .. })
}

/// From the interrupt that is pending in the host to the guest's thread in user space. Both sides are on one clock,
/// that may be off by `error`; `delivered` are the host's latencies, in the order in which they ended.
pub fn joined(delivered: &[Latency], arrivals: &[Arrival], error: u64) -> Vec<Latency> {
    let whole = |arrival: &Arrival| {
        // The latest entry before the handler is the one that delivered it.
        let ended =
            delivered.partition_point(|latency| latency.ended <= arrival.handled.saturating_add(error));
        let mut before = delivered[..ended].iter().rev().take_while(|latency| {
            // An entry much earlier has delivered another.
            arrival.handled.saturating_sub(latency.ended) < LONGEST_ENTRY
        });
        let latency = before.find(|latency| latency.vcpu == arrival.cpu)?;
        Some(Latency { ended: arrived_after(arrival, latency), ..*latency })
    };
    arrivals.iter().filter_map(whole).collect()
}

/// From the host's event of the entry to the guest's first of the handler, ns: amply, an emulated CPU is slow.
const LONGEST_ENTRY: u64 = 2_000_000;

fn arrived_after(arrival: &Arrival, latency: &Latency) -> u64 {
    arrival.arrived.max(latency.ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, pid: Pid, context: Context, kind: Kind) -> Event {
        Event { time, cpu: 0, pid, context, kind }
    }

    #[test]
    fn from_the_handler_to_the_thread_that_it_woke() {
        let mut follower = GuestFollower::default();
        let mut at = |time, pid, context, kind| follower.follow(&event(time, pid, context, kind));
        at(100, 0, Context::Interrupt, Kind::Timer);
        at(110, 0, Context::Interrupt, Kind::Waking { target: 42 });
        at(120, 0, Context::Task, Kind::Switch { previous: 0, runnable: true, next: 42, priority: 120 });
        let arrival = at(130, 42, Context::Task, Kind::SyscallExit { number: 230 }).unwrap();
        assert_eq!(arrival, Arrival { cpu: 0, pid: 42, handled: 100, arrived: 130 });
        assert_eq!(at(140, 42, Context::Task, Kind::SyscallExit { number: 1 }), None, "once");
        // A thread that another thread wakes waited for no interrupt.
        at(150, 42, Context::Task, Kind::Waking { target: 43 });
        assert_eq!(at(160, 43, Context::Task, Kind::SyscallExit { number: 1 }), None);
        at(170, 0, Context::Interrupt, Kind::Timer);
        at(175, 0, Context::Interrupt, Kind::Waking { target: 42 });
        follower.gap();
        assert_eq!(follower.follow(&event(190, 42, Context::Task, Kind::SyscallExit { number: 1 })), None);
    }

    #[test]
    fn an_arrival_belongs_to_the_entry_before_its_handler() {
        let latency = |vcpu, began, ended| Latency { pid: 7 + vcpu, vcpu, began, ended };
        let delivered = [latency(0, 100, 200), latency(1, 150, 210), latency(0, 900, 1000)];
        let arrival = |cpu, handled, arrived| Arrival { cpu, pid: 42, handled, arrived };
        let found = joined(&delivered, &[arrival(0, 205, 300), arrival(0, 995, 1100)], 10);
        assert_eq!(found, [latency(0, 100, 300), latency(0, 900, 1100)]);
        assert_eq!(joined(&delivered, &[arrival(2, 205, 300)], 10), [], "no such virtual CPU");
        assert_eq!(joined(&delivered, &[arrival(0, 5_000_000, 5_000_100)], 10), [], "long after");
        assert_eq!(joined(&delivered, &[arrival(0, 50, 300)], 10), [], "before all");
    }
}
