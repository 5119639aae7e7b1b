//! Finds guests within an emulated machine whose virtual CPU runs and accepts no interrupt, as KVM's counters show; they
//! are called deaf.
//!
//! QEMU's emulated SVM sometimes delivers an interrupt twice. A guest that receives the second interrupt while its
//! interrupts are disabled can wait for ever for a lock that it holds itself (docs/nested.md). The guest's CPU then
//! exits only for interrupts of the host (`irq_exits`): it no longer halts, accesses no device, and not even its own
//! timer's interrupt can be injected. A guest that works or waits has one of these other exits several times a
//! second.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::Guest;
use crate::standstill;

/// How long a guest is to be watched before it counts as deaf.
const WATCHED: Duration = Duration::from_secs(10);
/// How often [`Guest::watch_guests`] looks.
const PERIOD: Duration = Duration::from_secs(5);
/// Counters of each guest: its folder's name, the exits for the host's interrupts, and the sum of all else.
const READ: &str = "[ -d /sys/kernel/debug/kvm ] || mount -t debugfs debugfs /sys/kernel/debug; cd /sys/kernel/debug/kvm && for vm in [0-9]*; do [ -e $vm/irq_exits ] && \
    echo $vm $(cat $vm/irq_exits) $(($(cat $vm/irq_injections) + $(cat $vm/nmi_injections) + $(cat $vm/halt_exits) + \
    $(cat $vm/io_exits) + $(cat $vm/mmio_exits) + $(cat $vm/irq_window_exits))); done; true";

/// Makes the kernel record each exit by which a guest's CPU shut down: SVM_EXIT_SHUTDOWN, in a separate trace.
const KEEP_SHUTDOWNS: &str = "mkdir -p /sys/kernel/tracing && cd /sys/kernel/tracing && \
    { [ -d events ] || mount -t tracefs tracefs . && cd .; } && mkdir -p instances/shutdowns && \
    cd instances/shutdowns && echo >trace && echo 'exit_reason == 0x7f' >events/kvm/kvm_exit/filter && \
    echo 1 >events/kvm/kvm_exit/enable";
/// Prints the recorded shutdowns, without the header.
const READ_SHUTDOWNS: &str = "grep -v '^#' /sys/kernel/tracing/instances/shutdowns/trace; true";

/// Counters of one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    /// The number of exits for interrupts of the host.
    host_interrupts: u64,
    /// The number of injected interrupts, halts, and exits to devices.
    signs_of_life: u64,
}

type Sample = BTreeMap<String, Counters>;

fn parse(printed: &str) -> Sample {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut number = || words.next()?.parse().ok();
        Some((name, Counters { host_interrupts: number()?, signs_of_life: number()? }))
    };
    printed.lines().filter_map(line).collect()
}

/// The guests that ran between two samples and showed no sign of life.
fn deaf(before: &Sample, after: &Sample) -> Vec<String> {
    let between = |(name, now): (&String, &Counters)| {
        let then = before.get(name)?;
        let ran = now.host_interrupts - then.host_interrupts.min(now.host_interrupts);
        (ran > 0 && now.signs_of_life == then.signs_of_life).then(|| {
            format!(
                "the CPU of KVM's guest {name} was interrupted {ran} times by its host and took no interrupt itself"
            )
        })
    };
    after.iter().filter_map(between).collect()
}

impl Guest {
    fn sample(&self) -> Option<Sample> {
        let output = self.run_within(READ, Duration::from_secs(20)).ok()?;
        Some(parse(&output.stdout))
    }

    /// Watches the guests for 10 s, and records as evidence which of them are deaf.
    pub(crate) fn note_deaf_guests(&self) {
        let Some(before) = self.sample() else { return };
        std::thread::sleep(WATCHED);
        let Some(after) = self.sample() else { return };
        deaf(&before, &after).into_iter().for_each(standstill::note);
    }

    /// Watches the guests within this one while `work` starts and ends some of them. Records two kinds of evidence,
    /// even if `work` panics: guests that reacted to nothing for 10 s, and guests whose CPU shut down by a triple
    /// fault. A stock kernel gives no cause for a triple fault, and its user space cannot provoke one.
    ///
    /// # Panics
    /// Panics with the panic of `work`.
    pub fn watch_guests<T>(&self, work: impl FnOnce() -> T) -> T {
        self.must(KEEP_SHUTDOWNS);
        let ended = AtomicBool::new(false);
        let (result, found) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let (mut found, mut older, mut old) = (Vec::new(), Sample::new(), Sample::new());
                while !ended.load(Ordering::Relaxed) {
                    let now = self.sample().unwrap_or_default();
                    found.extend(deaf(&older, &now));
                    (older, old) = (old, now);
                    std::thread::park_timeout(PERIOD);
                }
                found
            });
            let result = catch_unwind(AssertUnwindSafe(work));
            ended.store(true, Ordering::Relaxed);
            watch.thread().unpark();
            (result, watch.join().unwrap_or_default())
        });
        let kept = self
            .run_within(READ_SHUTDOWNS, Duration::from_secs(20))
            .map_or_else(|_| String::new(), |kept| kept.stdout);
        let shut_down = kept.lines().map(|line| format!("KVM's guest shut down: {}", line.trim()));
        found.into_iter().chain(shut_down).for_each(standstill::note);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_is_interrupted_by_its_host_alone_is_deaf() {
        let before = parse("900-12 100 50\n901-12 100 50\n902-12 100 50\n903-12 100 50\n");
        let after = parse("900-12 2600 50\n901-12 2600 51\n902-12 100 50\n904-12 2600 0\nnonsense\n");
        let found = deaf(&before, &after);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("900-12 was interrupted 2500 times"), "{found:?}");
        assert!(deaf(&after, &before).is_empty());
    }
}
