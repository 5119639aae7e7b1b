//! A guest's own trace: from an interrupt to the thread that it woke, in user space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use crate::events::{Context, Event, Kind, Pid};

/// The most threads that were woken and have not reached user space yet: threads of the kernel never do.
const MOST_WOKEN: usize = 4096;

/// The arrival in user space of a guest's thread that an interrupt has woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The guest's CPU that received the interrupt.
    pub cpu: u32,
    /// The thread's id in the guest.
    pub pid: Pid,
    /// When the guest's kernel began to handle the interrupt.
    pub handled: u64,
    /// When the thread reached user space.
    pub arrived: u64,
}

/// A CPU handles an interrupt, and then its softirqs.
#[derive(Clone, Copy, Debug)]
struct Handling {
    began: u64,
    /// Whether the interrupt's handler has ended. If it has, the next event starts a new interrupt, unless that event
    /// is a softirq.
    is_over: bool,
}

/// Finds arrivals in a stream of a guest's events.
#[derive(Clone, Debug, Default)]
pub struct GuestFollower {
    /// The interrupts in progress, by CPU.
    handling: BTreeMap<u32, Handling>,
    woken: BTreeMap<Pid, (u32, u64)>,
}

impl GuestFollower {
    /// Takes the next event. Returns the arrival that it completes.
    pub fn follow(&mut self, event: &Event) -> Option<Arrival> {
        if event.context == Context::Task && !is_interrupt(&event.kind) {
            self.handling.remove(&event.cpu);
        }
        match event.kind {
            Kind::IrqEntry { .. } | Kind::Timer => {
                let other = Handling { began: event.time, is_over: false };
                let handling = self.handling.entry(event.cpu).or_insert(other);
                if handling.is_over {
                    *handling = other;
                }
            }
            Kind::SoftirqEntry { .. } => self.set_over(event.cpu, false),
            Kind::IrqExit | Kind::TimerExit | Kind::SoftirqExit => self.set_over(event.cpu, true),
            Kind::Waking { target } => {
                // A thread that is woken again has slept meanwhile: in the kernel, or for another cause.
                self.woken.remove(&target);
                let handled = self.handling.get(&event.cpu)?.began;
                if self.woken.len() < MOST_WOKEN {
                    self.woken.insert(target, (event.cpu, handled));
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

    fn set_over(&mut self, cpu: u32, is_over: bool) {
        if let Some(handling) = self.handling.get_mut(&cpu) {
            handling.is_over = is_over;
        }
    }

    /// Notes that events are missing here.
    pub fn gap(&mut self) {
        self.handling.clear();
        self.woken.clear();
    }
}

fn is_interrupt(kind: &Kind) -> bool {
    matches!(kind, Kind::IrqEntry { .. } | Kind::Timer | Kind::SoftirqEntry { .. })
}

/// Joins latencies of the host and arrivals in the guest: from the interrupt that is pending in the host to the
/// guest's thread in user space. Both sides are on one clock, with an error of at most `error`. `delivered` are the
/// host's latencies, in the order in which they ended.
pub fn joined(delivered: &[Latency], arrivals: &[Arrival], error: u64) -> Vec<Latency> {
    let whole = |arrival: &Arrival| {
        // The latest entry before the handler delivered the interrupt.
        let ended =
            delivered.partition_point(|latency| latency.ended <= arrival.handled.saturating_add(error));
        let mut before = delivered[..ended].iter().rev().take_while(|latency| {
            // An entry much earlier has delivered another.
            arrival.handled.saturating_sub(latency.ended) < LONGEST_ENTRY
        });
        let latency = before.find(|latency| latency.vcpu == arrival.cpu)?;
        Some(Latency { ended: arrival.arrived.max(latency.ended), ..*latency })
    };
    arrivals.iter().filter_map(whole).collect()
}

/// From the host's event of the entry to the guest's first of the handler, ns: amply, an emulated CPU is slow.
const LONGEST_ENTRY: u64 = 2_000_000;

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
        // One that slept again in the kernel has waited for the second interrupt.
        for began in [162, 166] {
            at(began, 0, Context::Interrupt, Kind::Timer);
            at(began + 1, 0, Context::Interrupt, Kind::Waking { target: 42 });
            at(
                began + 2,
                42,
                Context::Task,
                Kind::Switch { previous: 42, runnable: false, next: 0, priority: 120 },
            );
        }
        assert_eq!(at(169, 42, Context::Task, Kind::SyscallExit { number: 61 }).unwrap().handled, 166);
        at(170, 0, Context::Interrupt, Kind::Timer);
        at(175, 0, Context::Interrupt, Kind::Waking { target: 42 });
        // No thread is woken by the first of two interrupts of an idle CPU; a softirq belongs to the one before it.
        at(180, 42, Context::Task, Kind::SyscallExit { number: 1 });
        let softirq = || Kind::SoftirqEntry { action: "TIMER".into() };
        for (time, kind) in
            [(181, Kind::Timer), (182, Kind::TimerExit), (184, Kind::Timer), (185, Kind::TimerExit)]
        {
            at(time, 0, Context::Interrupt, kind);
        }
        at(186, 0, Context::Softirq, softirq());
        at(187, 0, Context::Softirq, Kind::Waking { target: 42 });
        assert_eq!(at(189, 42, Context::Task, Kind::SyscallExit { number: 1 }).unwrap().handled, 184);
        at(189, 0, Context::Interrupt, Kind::Timer);
        at(189, 0, Context::Interrupt, Kind::Waking { target: 42 });
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
