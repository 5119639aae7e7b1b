//! Signals between the guest's first CPU and a thread of the host, with stamps of the counter that both share.

use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use measure::Failure;

use super::counter::{give_way, stamp};
use super::layout::{ANSWER, SAMPLES};
use super::program::Program;
use super::vm::{Machine, execute};
use crate::costs::alignment::{Alignment, Exchange, durations};
use crate::costs::settings::pin;
use crate::failed::SEE_LOG;
use crate::memory::Memory;

/// How long the host waits for the guest, which itself waits for eight seconds.
const LIMIT: Duration = Duration::from_secs(10);
/// The exchanges of stamps that bound the offset of the clocks.
const EXCHANGES: usize = 100;

impl Machine {
    /// The offset of the guest's counter, by interrupts from a thread on this CPU of the host.
    ///
    /// # Errors
    /// The kernel cannot make guest and host share the counter, or the causes of [`Machine::inject`].
    pub fn align(&mut self, cpu: usize) -> Result<Alignment, Failure> {
        self.share_counter()?;
        let exchanges = self.inject(EXCHANGES, cpu)?;
        in_order(&exchanges)?;
        Ok(Alignment::of(&exchanges).expect("each exchange allows the offset 0"))
    }

    /// Interrupts by irqfd from a thread on this CPU of the host to the guest's first CPU, which waits in a loop: for each
    /// the stamp before the write, that of the handler, and that after the guest's answer was seen.
    ///
    /// # Errors
    /// There is no such CPU, the eventfd cannot be written, an interrupt has no answer within 10 s, or the causes of
    /// [`Machine::execute`].
    pub fn inject(&mut self, count: usize, cpu: usize) -> Result<Vec<Exchange>, Failure> {
        let Self { vcpus: [vcpu, _], memory, irqfd, .. } = self;
        let (memory, irqfd) = (&*memory, &*irqfd);
        std::thread::scope(|scope| {
            let sender = scope.spawn(move || {
                pin(cpu)?;
                let interrupt = |_| {
                    memory.store(ANSWER, 0);
                    let before = stamp();
                    irqfd.write(1).map_err(|error| Failure::new("writing to an irqfd", error, SEE_LOG))?;
                    let handled = answer(memory)?;
                    Ok([before, handled, stamp()])
                };
                (0..count).map(interrupt).collect()
            });
            let ran = execute(vcpu, Program::Answer, count, ANSWER);
            both(ran, sender, || ())
        })
    }

    /// Stores to an ioeventfd by the guest's first CPU, in ticks until a thread on this CPU of the host, which waits for the
    /// eventfd, runs.
    ///
    /// # Errors
    /// There is no such CPU, the eventfd cannot be read, or the causes of [`Machine::execute`].
    pub fn signal_out(&mut self, count: usize, cpu: usize) -> Result<Vec<u64>, Failure> {
        let Self { vcpus: [vcpu, _], memory, ioeventfd, .. } = self;
        let (memory, ioeventfd) = (&*memory, &*ioeventfd);
        ioeventfd.begin();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                pin(cpu)?;
                for number in 1..=count {
                    if !ioeventfd.wait()? {
                        let answer = format!("it ended before event {number}");
                        return Err(Failure::new("waiting for the guest", answer, SEE_LOG));
                    }
                    memory.store(ANSWER, stamp());
                }
                Ok(())
            });
            let ran = execute(vcpu, Program::SignalOut, count, ANSWER);
            both(ran, thread, || ioeventfd.end())
        })?;
        Ok(memory.words(SAMPLES[0], count))
    }
}

/// The thread's result beside the guest's, whose failure ends the thread by `end`. If both failed, the first failure.
fn both<T>(
    guest: Result<(), Failure>,
    thread: ScopedJoinHandle<'_, Result<T, Failure>>,
    end: impl FnOnce(),
) -> Result<T, Failure> {
    let failed_before = thread.is_finished();
    end();
    let found = thread.join().unwrap_or_else(|_| Err(Failure::panicked("signalling a guest")));
    if failed_before { found.and_then(|found| guest.map(|()| found)) } else { guest.and(found) }
}

/// The durations from each interrupt to its handler, in ticks.
///
/// # Errors
/// A handler ran before its interrupt was sent, or after its answer was seen.
pub fn in_order(exchanges: &[Exchange]) -> Result<Vec<u64>, Failure> {
    let [before, handled, after] =
        [0, 1, 2].map(|place| exchanges.iter().map(|stamps| stamps[place]).collect::<Vec<_>>());
    durations(&handled, &after).and_then(|_| durations(&before, &handled)).map_err(|early| {
        let answer = format!("{early} effects came before their causes");
        Failure::new("laying stamps of host and guest on one clock", answer, SEE_LOG)
    })
}

/// Waits for the guest's stamp.
fn answer(memory: &Memory) -> Result<u64, Failure> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        let stamp = memory.load(ANSWER);
        if stamp != 0 {
            return Ok(stamp);
        }
        // KVM raises an interrupt line in a thread of the kernel, which may need this CPU.
        std::thread::yield_now();
        give_way();
    }
    Err(Failure::new("waiting for the guest", "it answers no interrupt", SEE_LOG))
}
