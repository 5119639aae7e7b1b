//! Interrupts and wake-ups: one side causes them, and the handler on the other side takes a stamp in its first
//! instruction.

use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use measure::Failure;

use super::alignment::{Alignment, Exchange, durations};
use super::bench::Bench;
use super::settings::pin;
use crate::micro_vm::layout::{ANSWER, READY, READY_STAMP, SAMPLES, SECOND};
use crate::micro_vm::{Arguments, MicroVm, Program, SEE_LOG, Stop, tsc};

/// How an interrupt is signalled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Ioctl,
    Irqfd,
}

/// The state of the guest when the interrupt comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guest {
    Spinning,
    /// Halted. The kernel may poll or sleep.
    Halted,
    /// Halted, and the kernel's thread was observed to sleep.
    Asleep,
}

/// Exchanges of stamps for the alignment, at most and at once. Each needs both CPUs at the same time, so that on a
/// machine that has no time for both it lasts as long as the scheduler leaves it to one.
const EXCHANGES: usize = 1000;
const EXCHANGES_AT_ONCE: usize = 100;
/// After this time, the exchanges so far suffice.
const EXCHANGING: Duration = Duration::from_secs(1);
/// The time between the guest's report that it waits and the event: the guest may need this long to enter the kernel.
const SETTLE: Duration = Duration::from_micros(200);
/// The time between two events if nothing must settle.
const SPACING: Duration = Duration::from_micros(20);
/// After this time without a step, the guest gets an interrupt that is no event.
const NUDGE: Duration = Duration::from_secs(1);
/// The interval at which the host looks for such a step if it has nothing else to do.
const LOOK: Duration = Duration::from_millis(50);
/// The time between two signals to a guest that must end.
const AGAIN: Duration = Duration::from_millis(1);
/// How long the host and the guest wait for each other.
const LIMIT: Duration = Duration::from_secs(10);

impl Guest {
    fn program(self) -> Program {
        if self == Guest::Spinning { Program::WaitSpinning } else { Program::WaitHalted }
    }

    fn delay(self) -> Duration {
        if self == Guest::Spinning { SPACING } else { SETTLE }
    }
}

/// Exchanges stamps with the guest and bounds the offset of its clock. `None` if the clocks drift.
///
/// # Errors
/// A thread cannot be bound to its CPU, or the guest's program does not end or misses an exchange for 10 s.
pub fn align(bench: &mut Bench) -> Result<Option<Alignment>, Failure> {
    let start = Instant::now();
    let mut exchanges = Vec::with_capacity(EXCHANGES);
    while exchanges.len() < EXCHANGES && (exchanges.is_empty() || start.elapsed() < EXCHANGING) {
        exchanges.extend(exchange(bench)?);
    }
    Ok(Alignment::of(&exchanges))
}

/// Some exchanges of stamps.
fn exchange(bench: &mut Bench) -> Result<Vec<Exchange>, Failure> {
    let Bench { vm, vcpus: [vcpu, _], settings, stop, .. } = bench;
    let vm = &*vm;
    reset(vm);
    let cpus = settings.cpus;
    std::thread::scope(|scope| {
        let guest = scope.spawn(move || {
            pin(cpus[0])?;
            vcpu.run(Program::Exchange, Arguments { samples: EXCHANGES_AT_ONCE, ..Default::default() })
        });
        beside(guest, stop, |guest| {
            pin(cpus[1])?;
            let mut exchanges = Vec::with_capacity(EXCHANGES_AT_ONCE);
            for number in 1..=EXCHANGES_AT_ONCE as u64 {
                let before = tsc::stamp();
                vm.memory.store(ANSWER, number);
                wait_ready(vm, number, guest)?;
                let after = tsc::stamp();
                exchanges.push([before, vm.memory.load(READY_STAMP), after]);
            }
            Ok(exchanges)
        })
    })
}

/// Measures from the signal on the host to the interrupt handler in the guest, in ticks of the TSC.
///
/// # Errors
/// A thread cannot be bound to its CPU; the guest's program does not end, or does not wait for the next interrupt
/// within 10 s; KVM refuses the interrupt; a halted CPU's thread does not sleep within 10 s; or stamps contradict the
/// alignment of the clocks.
pub fn inject(bench: &mut Bench, signal: Signal, guest: Guest) -> Result<Vec<u64>, Failure> {
    let samples = bench.samples();
    let delay = ticks(bench, guest.delay())?;
    let cpus = bench.settings.cpus;
    let Bench { vm, vcpus: [vcpu, _], alignment, stop, .. } = bench;
    let vm = &*vm;
    reset(vm);
    let thread = AtomicI32::new(0);
    let signalled = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            pin(cpus[0])?;
            thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
            vcpu.run(guest.program(), Arguments { samples, ..Default::default() })
        });
        beside(running, stop, |running| {
            pin(cpus[1])?;
            let mut signalled = Vec::with_capacity(samples);
            for number in 1..=samples as u64 {
                wait_ready(vm, number, running)?;
                let seen = tsc::stamp();
                check_order(vm, *alignment, seen)?;
                if guest == Guest::Asleep {
                    wait_asleep(thread.load(Ordering::Acquire))?;
                }
                // The distance varies, so that nothing periodic in the guest is always met at the same point.
                tsc::spin_until(tsc::stamp() + delay + number % 16 * (delay / 64));
                // Without this answer the guest keeps waiting.
                vm.memory.store(ANSWER, number);
                signalled.push(tsc::stamp());
                match signal {
                    Signal::Ioctl => vm.signal_msi()?,
                    Signal::Irqfd => vm.signal_irqfd()?,
                }
            }
            Ok(signalled)
        })
    })?;
    between(*alignment, &signalled, &vm.memory.words(SAMPLES[0], samples), Side::Host, Side::Guest)
}

/// Measures from the guest's write to a port to the host's thread that waits for the ioeventfd, in ticks of the TSC.
///
/// # Errors
/// A thread cannot be bound to its CPU; the guest's program does not end; the eventfd cannot be read; or stamps
/// contradict the alignment of the clocks.
pub fn signal_out(bench: &mut Bench) -> Result<Vec<u64>, Failure> {
    let samples = bench.samples();
    let delay = ticks(bench, SETTLE)?;
    let cpus = bench.settings.cpus;
    let Bench { vm, vcpus: [vcpu, _], alignment, stop, .. } = bench;
    let vm = &*vm;
    reset(vm);
    vm.ioeventfd.begin();
    let heard = std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            let arguments = Arguments { samples, first: delay, second: 0 };
            let ended = pin(cpus[0]).and_then(|()| vcpu.run(Program::SignalOut, arguments));
            vm.ioeventfd.end();
            ended
        });
        beside(running, stop, |running| {
            pin(cpus[1])?;
            let mut heard = Vec::with_capacity(samples);
            for number in 1..=samples as u64 {
                if !vm.ioeventfd.wait()? {
                    // At once: `beside` then tells why.
                    while !running.is_finished() {
                        std::thread::sleep(AGAIN);
                    }
                    let answer = format!("it ended before event {number}");
                    return Err(Failure::new("waiting for the guest", answer, SEE_LOG));
                }
                heard.push(tsc::stamp());
                vm.memory.store(ANSWER, number);
            }
            Ok(heard)
        })
    })?;
    between(*alignment, &vm.memory.words(SAMPLES[0], samples), &heard, Side::Guest, Side::Host)
}

/// Measures an interrupt that the guest sends to itself: from the write of the register to the handler, and the end
/// of interrupt, in ticks of the TSC.
///
/// # Errors
/// A thread cannot be bound to its CPU, or the guest's program does not end.
pub fn self_ipi(bench: &mut Bench) -> Result<(Vec<u64>, Vec<u64>), Failure> {
    pin(bench.settings.cpus[0])?;
    let samples = bench.samples();
    bench.vcpus[0].run(Program::SelfIpi, Arguments { samples, ..Default::default() })?;
    let words = |at| bench.vm.memory.words(at, samples);
    Ok((words(SAMPLES[0]), words(SAMPLES[0] + SECOND)))
}

/// Measures from the write of the register on the second CPU to the handler on the first, in ticks of the TSC.
///
/// # Errors
/// A thread cannot be bound to its CPU, the guest's program does not end, KVM refuses an interrupt that wakes a stuck
/// guest, or some handlers ran before their interrupts were sent.
pub fn ipi(bench: &mut Bench, guest: Guest) -> Result<Vec<u64>, Failure> {
    let samples = bench.samples();
    let delay = ticks(bench, guest.delay())?;
    let cpus = bench.settings.cpus;
    let Bench { vm, vcpus: [target, sender], alignment, .. } = bench;
    let vm = &*vm;
    reset(vm);
    std::thread::scope(|scope| {
        let target = scope.spawn(move || {
            pin(cpus[0])?;
            target.run(guest.program(), Arguments { samples, ..Default::default() })
        });
        let sender = scope.spawn(move || {
            pin(cpus[1])?;
            // The target's APIC has the number 0.
            sender.run(Program::SendIpi, Arguments { samples, first: delay, second: 0 })
        });
        nudge(vm, &target)?;
        join(sender)?;
        join(target)
    })?;
    let [handled, sent] = SAMPLES.map(|at| vm.memory.words(at, samples));
    between(*alignment, &sent, &handled, Side::Guest, Side::Guest)
}

/// Measures from a TSC deadline to the timer's handler, in ticks of the TSC.
///
/// # Errors
/// KVM has no TSC deadline timer. A thread cannot be bound to its CPU, the guest's program does not end, KVM refuses
/// an interrupt that wakes a stuck guest, or some handlers ran before their deadlines.
pub fn timer(bench: &mut Bench, guest: Guest) -> Result<Vec<u64>, Failure> {
    let tried = "setting the guest's timer by TSC deadline";
    if !bench.vm.has_tsc_deadline {
        return Err(Failure::new(tried, "this KVM does not offer it", "use Linux 3.3 or later"));
    }
    let samples = bench.samples();
    let program = if guest == Guest::Spinning { Program::TimerSpinning } else { Program::TimerHalted };
    let first = ticks(bench, SETTLE)?;
    let cpus = bench.settings.cpus;
    let Bench { vm, vcpus: [vcpu, _], .. } = bench;
    let vm = &*vm;
    reset(vm);
    std::thread::scope(|scope| {
        let running = scope.spawn(move || {
            pin(cpus[0])?;
            vcpu.run(program, Arguments { samples, first, second: 0 })
        });
        pin(cpus[1])?;
        nudge(vm, &running)?;
        join(running)
    })?;
    let found = bench.vm.memory.words(SAMPLES[0], samples);
    // A handler before the deadline leaves a difference below zero.
    let early = found.iter().filter(|ticks| (**ticks as i64) < 0).count();
    if early > 0 {
        let answer = format!("{early} of {samples} handlers ran before their deadlines");
        return Err(Failure::new(tried, answer, "see kvm's parameter lapic_timer_advance_ns"));
    }
    Ok(found)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Host,
    Guest,
}

/// The durations from causes to effects, with the guest's stamps on the host's clock.
fn between(
    alignment: Option<Alignment>,
    causes: &[u64],
    effects: &[u64],
    cause: Side,
    effect: Side,
) -> Result<Vec<u64>, Failure> {
    let tried = "laying stamps of host and guest on one clock";
    let remedy = "use Linux 5.16 or later on the host, with a TSC that it finds stable";
    if cause == effect {
        return durations(causes, effects).map_err(|early| {
            Failure::new(tried, format!("{early} effects came before their causes"), remedy)
        });
    }
    let Some(alignment) = alignment else {
        return Err(Failure::new(tried, "the guest's time-stamp counter drifts against the host's", remedy));
    };
    let on_one_clock = |stamps: &[u64], side: Side| -> Vec<u64> {
        let off = if side == Side::Guest { alignment.correction() } else { 0 };
        stamps.iter().map(|stamp| stamp.wrapping_sub_signed(off)).collect()
    };
    durations(&on_one_clock(causes, cause), &on_one_clock(effects, effect)).map_err(|early| {
        let answer = format!(
            "{early} of {} effects came before their causes; the clocks may be off by {} ticks",
            causes.len(),
            alignment.error_bound()
        );
        Failure::new(tried, answer, remedy)
    })
}

/// Checks that the guest stamped its wait before the host saw it: the other direction of the alignment's check.
fn check_order(vm: &MicroVm, alignment: Option<Alignment>, seen: u64) -> Result<(), Failure> {
    let said = vm.memory.load(READY_STAMP);
    between(alignment, &[said], &[seen], Side::Guest, Side::Host).map(drop)
}

/// Sets the counters that guest and host share to zero.
fn reset(vm: &MicroVm) {
    vm.memory.store(READY, 0);
    vm.memory.store(ANSWER, 0);
}

fn ticks(bench: &Bench, duration: Duration) -> Result<u64, Failure> {
    Ok(duration.as_micros() as u64 * u64::from(bench.vcpus[0].tsc_khz()?) / 1000)
}

type Running<'scope> = ScopedJoinHandle<'scope, Result<(), Failure>>;

fn join(running: Running<'_>) -> Result<(), Failure> {
    running.join().unwrap_or_else(|_| Err(Failure::panicked("running the guest")))
}

/// Does the host's part beside a running guest. If that part fails, the guest is ended, because it would wait forever.
/// If the guest failed first, the error is the guest's.
fn beside<'scope, T>(
    running: Running<'scope>,
    stop: &Stop,
    host: impl FnOnce(&Running<'scope>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let done = host(&running);
    let ended_first = running.is_finished();
    while done.is_err() && !running.is_finished() {
        stop.end()?;
        std::thread::sleep(AGAIN);
    }
    match (done, join(running)) {
        (Err(_), Err(guest)) if ended_first => Err(guest),
        (Err(host), _) => Err(host),
        (Ok(done), guest) => guest.map(|()| done),
    }
}

/// Sends interrupts to a guest that makes no step, until the guest has ended. A guest of QEMU's emulated SVM was seen
/// to halt for good, presumably after an interrupt between its STI and its HLT, which real processors hold back.
fn nudge(vm: &MicroVm, running: &Running<'_>) -> Result<(), Failure> {
    let (mut step, mut since) = (0, Instant::now());
    while !running.is_finished() {
        let now = vm.memory.load(READY);
        if now != step {
            (step, since) = (now, Instant::now());
        } else if since.elapsed() > NUDGE {
            vm.signal_msi()?;
            since = Instant::now();
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Waits until the guest waits for this event.
fn wait_ready(vm: &MicroVm, number: u64, running: &Running<'_>) -> Result<(), Failure> {
    let (mut deadline, mut nudged) = (None, 0);
    for turn in 1u64.. {
        if vm.memory.load(READY) >= number {
            break;
        }
        // The clock is not read in each turn, because it is slower than the awaited store.
        if turn % 4096 == 0 {
            let now = Instant::now();
            let deadline = *deadline.get_or_insert(now + LIMIT);
            if now + LIMIT > deadline + NUDGE * (nudged + 1) {
                nudged += 1;
                vm.signal_msi()?;
            }
            if running.is_finished() || now > deadline {
                let answer = format!("it has not come to event {number}");
                return Err(Failure::new("waiting for the guest", answer, SEE_LOG));
            }
        }
        std::hint::spin_loop();
    }
    Ok(())
}

/// Waits until a thread of this process sleeps, according to its state in proc(5).
fn wait_asleep(thread: i32) -> Result<(), Failure> {
    let path = format!("/proc/self/task/{thread}/stat");
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let stat = std::fs::read_to_string(&path).unwrap_or_default();
        if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
            return Ok(());
        }
    }
    Err(Failure::new(
        "waiting until the halted CPU's thread sleeps",
        "it runs on",
        "see kvm's parameter halt_poll_ns",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(tried: &str) -> Failure {
        Failure::new(tried, "no", "none")
    }

    #[test]
    fn a_guest_whose_host_fails_is_ended_and_the_first_failure_told() {
        let (stop, other) = (Stop::default(), Stop::default());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                while !stop.is_wanted() {
                    std::thread::sleep(AGAIN);
                }
                Err(failed("guest"))
            });
            let told = beside(waiting, &stop, |_| Err::<(), _>(failed("host"))).unwrap_err();
            assert_eq!(told.tried, "host");
            let ended = scope.spawn(|| Err(failed("guest")));
            let host = |ended: &Running<'_>| {
                while !ended.is_finished() {
                    std::thread::sleep(AGAIN);
                }
                Err::<(), _>(failed("host"))
            };
            assert_eq!(beside(ended, &other, host).unwrap_err().tried, "guest");
            assert!(!other.is_wanted());
            let whole = scope.spawn(|| Ok(()));
            assert_eq!(beside(whole, &other, |_| Ok(7)).unwrap(), 7);
        });
    }
}
