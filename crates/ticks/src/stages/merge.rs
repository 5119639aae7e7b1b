//! One row for each tick, from the source's stamps, the host's trace and the receiver's stamps.

use clocks::Alignments;
use kvm::events::{Kind, Pid, Trace};

use super::point::{Points, Stage};
use crate::page::Record;

/// The host kernel's part of a tick.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// The trace, on the source's clock.
    pub trace: &'a Trace,
    /// The threads of the process that runs the guest.
    pub threads: &'a [Pid],
}

/// Makes the rows for `records`, which must be in the order of their numbers. `handlers` are the times of the guest's
/// handler, on the receiver's clock. Times of two clocks may contradict each other by at most the error of their
/// alignment.
pub fn merge(
    records: &[Record],
    alignments: &Alignments,
    handlers: &[u64],
    host: Option<Host<'_>>,
) -> Vec<Points> {
    let host = host.map(|host| Interrupts::of(&host));
    let handlers: Vec<u64> = handlers.iter().map(|time| alignments.of_source(*time)).collect();
    let error_ns = alignments.error_ns();
    let row = |(at, record): (usize, &Record)| {
        let tick = record.tick;
        let received_ns = alignments.of_source(record.received_ns).max(tick.sent_ns);
        let next_ns = records.get(at + 1).map_or(u64::MAX, |next| next.tick.sent_ns);
        // A tick that its receiver found before its own interrupt was there waited no longer.
        let found = |time: u64, after: u64| time.clamp(after, received_ns.max(after));
        let host = host.as_ref().and_then(|host| host.of_tick(tick.sent_ns, next_ns, received_ns + error_ns));
        let irqfd_ns = host.map(|(irqfd, _)| found(irqfd, tick.sent_ns));
        let injection_ns = host.map(|(_, injection)| found(injection, irqfd_ns.unwrap_or(tick.sent_ns)));
        let before_ns = injection_ns.unwrap_or(tick.sent_ns);
        let handler = handlers.partition_point(|time| time + error_ns < before_ns);
        let handler_ns = handlers.get(handler).map(|time| found(*time, before_ns));
        let done_ns = received_ns + record.done_ns.saturating_sub(record.received_ns);
        let mut ended_ns = [None; 6];
        ended_ns[Stage::Sent as usize] = Some(tick.sent_ns.max(tick.due_ns));
        ended_ns[Stage::Irqfd as usize] = irqfd_ns;
        ended_ns[Stage::Injection as usize] = injection_ns;
        ended_ns[Stage::Handler as usize] = handler_ns;
        ended_ns[Stage::Receiver as usize] = Some(received_ns.max(handler_ns.unwrap_or(before_ns)));
        ended_ns[Stage::Work as usize] = Some(done_ns.max(received_ns));
        Points { number: tick.number, due_ns: tick.due_ns, ended_ns }
    };
    records.iter().enumerate().map(row).collect()
}

/// A virtual CPU was entered with a vector.
struct Injected {
    time: u64,
    vector: u32,
    /// Whether the guest had its interrupts off, so that KVM waited.
    guest_waited: bool,
}

/// Times out of a trace, in order.
struct Interrupts {
    /// When KVM was given an interrupt, with its vector if the trace has it.
    given: Vec<(u64, Option<u32>)>,
    /// When a vector was injected into a virtual CPU that was entered then.
    injected: Vec<Injected>,
    /// When a virtual CPU was entered.
    entered: Vec<u64>,
}

impl Interrupts {
    fn of(host: &Host<'_>) -> Self {
        let mut found = Interrupts { given: Vec::new(), injected: Vec::new(), entered: Vec::new() };
        // Whose vector is still to come, and which virtual CPU has which vectors until its entry.
        let mut giving: Option<Pid> = None;
        let mut pending: Vec<(Pid, u32)> = Vec::new();
        // Virtual CPUs whose guest takes interrupts again, until their entry.
        let mut opened: Vec<Pid> = Vec::new();
        for event in &host.trace.events {
            match &event.kind {
                Kind::Kvm { name } if name == "kvm_msi_set_irq" => {
                    found.given.push((event.time, None));
                    giving = Some(event.pid);
                }
                Kind::Accept { vector, .. } if giving == Some(event.pid) => {
                    if let Some((_, given)) = found.given.last_mut() {
                        *given = Some(*vector);
                    }
                    giving = None;
                }
                Kind::Inject { vector } if host.threads.contains(&event.pid) => {
                    pending.push((event.pid, *vector));
                }
                Kind::Entry { .. } if host.threads.contains(&event.pid) => {
                    found.entered.push(event.time);
                    let guest_waited = opened.contains(&event.pid);
                    opened.retain(|pid| *pid != event.pid);
                    pending.retain(|(pid, vector)| {
                        if *pid == event.pid {
                            let (time, vector) = (event.time, *vector);
                            found.injected.push(Injected { time, vector, guest_waited });
                        }
                        *pid != event.pid
                    });
                }
                left if left.is_interrupt_window() && host.threads.contains(&event.pid) => {
                    opened.push(event.pid);
                }
                _ => {}
            }
        }
        found
    }

    /// When KVM was given the interrupt of a tick sent then, before the next was sent; and when the guest was entered
    /// with it, by the time that the receiver had run.
    fn of_tick(&self, sent_ns: u64, next_ns: u64, received_ns: u64) -> Option<(u64, u64)> {
        let first = self.given.partition_point(|(time, _)| *time < sent_ns);
        let (irqfd_ns, vector) = *self.given.get(first).filter(|(time, _)| *time < next_ns)?;
        let from = self.injected.partition_point(|injected| injected.time < irqfd_ns);
        let injected = self.injected[from..].iter().find(|injected| Some(injected.vector) == vector);
        let entered = self.entered.get(self.entered.partition_point(|time| *time < irqfd_ns));
        // A CPU that delivers interrupts by itself needs no injection, and no entry where the guest runs already. A guest
        // that had its interrupts off kept one waiting from the entry on that would have brought it.
        let entered = entered.copied().filter(|time| *time <= received_ns);
        let injected_ns = injected.filter(|injected| !injected.guest_waited).map(|injected| injected.time);
        let injection_ns = injected_ns.or(entered).unwrap_or(irqfd_ns);
        Some((irqfd_ns, injection_ns))
    }
}
