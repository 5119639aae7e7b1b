//! The order of things: on a thread of its own, since a guest may hang in KVM_RUN.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use linux::interrupt;
use measure::Failure;

use super::bench::{Bench, WARM_UP};
use super::catalogue::{ROWS, Row};
use super::results::Cost;
use super::settings::{Prepared, Settings};
use super::{exits, faults, interrupts};
use crate::micro_vm::tsc;

/// How long each of the steps before the first row may take: making the machine, and a trial of its exits. A
/// `/dev/kvm` that cannot run such a guest may hang in either.
const START: Duration = Duration::from_secs(4);
/// How long a row may take, with all its samples.
const ROW: Duration = Duration::from_secs(120);

enum Event {
    Trying(&'static str),
    Prepared(Prepared),
    Began(&'static Row),
    Measured(Box<Cost>),
}

/// How long a signal may wait to be noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Measures all rows, telling of each before it begins. Rows that cannot be measured hold the reason. After a signal
/// ([`interrupt::is_set`]) only the rows so far come back.
///
/// Where a guest hangs, and after a signal, this returns and leaves its thread behind: the process should end soon.
///
/// # Errors
/// This KVM cannot run the guest, or a signal came before that was known.
pub fn measure(
    settings: &Settings,
    mut began: impl FnMut(&'static Row),
) -> Result<(Prepared, Vec<Cost>), Failure> {
    let (sender, receiver) = mpsc::channel();
    let theirs = settings.clone();
    let thread = std::thread::spawn(move || rows(&theirs, &sender));
    let mut prepared = None;
    let mut costs = Vec::new();
    let mut doing = "making a virtual machine";
    let mut limit = START;
    let mut since = Instant::now();
    loop {
        let event = receiver.recv_timeout(LOOK);
        if event.is_ok() {
            since = Instant::now();
        }
        match event {
            Ok(Event::Trying(what)) => doing = what,
            Ok(Event::Prepared(found)) => prepared = Some(found),
            Ok(Event::Began(row)) => {
                (doing, limit) = (row.title, ROW);
                began(row);
            }
            Ok(Event::Measured(cost)) => costs.push(*cost),
            Err(mpsc::RecvTimeoutError::Timeout) if interrupt::is_set() => {
                let failed = || Failure::new(doing, "a signal", "let it run to its end");
                return Ok((prepared.ok_or_else(failed)?, costs));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if since.elapsed() < limit => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(Failure::new(
                    format!("running an unmodified guest: {doing}"),
                    format!("no end within {} s", limit.as_secs()),
                    "measure on a machine whose KVM runs such guests (VMX or SVM)",
                ));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    thread.join().map_err(|_| Failure::new(doing, "the measuring thread panicked", "report this"))??;
    Ok((prepared.expect("told before any row"), costs))
}

/// A machine whose clocks are aligned with the host's.
fn aligned(settings: &Settings, halt_poll_ns: Option<u64>) -> Result<Bench, Failure> {
    let mut bench = Bench::new(settings, halt_poll_ns)?;
    bench.alignment = interrupts::align(&mut bench)?;
    Ok(bench)
}

fn rows(settings: &Settings, sender: &mpsc::Sender<Event>) -> Result<(), Failure> {
    let mut bench = aligned(settings, None)?;
    for row in ROWS.iter().filter(|row| exits::program(row.id).is_some()) {
        // One sample: a trial that hangs tells what this KVM cannot do.
        let _ = sender.send(Event::Trying(row.title));
        exits::exit(&mut bench, row.id, 1)?;
    }
    let tsc_khz = bench.vcpus[0].tsc_khz()?;
    let prepared = Prepared { emulated: tsc::is_emulated(), tsc_khz, alignment: bench.alignment };
    // Nobody listens any more: the caller has given up.
    let _ = sender.send(Event::Prepared(prepared));
    for row in ROWS {
        let _ = sender.send(Event::Began(row));
        let samples = samples(row, &mut bench, settings);
        let _ = sender.send(Event::Measured(Box::new(Cost::new(row, samples, tsc_khz))));
    }
    Ok(())
}

fn samples(row: &Row, bench: &mut Bench, settings: &Settings) -> Result<Vec<u64>, Failure> {
    use interrupts::{Guest, Signal};
    /// Longer than any guest is halted here.
    const POLL_NS: u64 = 50_000_000;
    let mut found = match row.id {
        "self-ipi" => interrupts::self_ipi(bench)?.0,
        "eoi" => interrupts::self_ipi(bench)?.1,
        "ioeventfd-to-thread" => interrupts::signal_out(bench)?,
        "inject-ioctl-spinning" => interrupts::inject(bench, Signal::Ioctl, Guest::Spinning)?,
        "inject-ioctl-halted" => interrupts::inject(bench, Signal::Ioctl, Guest::Halted)?,
        "inject-irqfd-spinning" => interrupts::inject(bench, Signal::Irqfd, Guest::Spinning)?,
        "inject-irqfd-halted" => interrupts::inject(bench, Signal::Irqfd, Guest::Halted)?,
        "ipi-spinning" => interrupts::ipi(bench, Guest::Spinning)?,
        "ipi-halted" => interrupts::ipi(bench, Guest::Halted)?,
        "timer-spinning" => interrupts::timer(bench, Guest::Spinning)?,
        "timer-halted" => interrupts::timer(bench, Guest::Halted)?,
        "wake-up-polling" => {
            interrupts::inject(&mut aligned(settings, Some(POLL_NS))?, Signal::Irqfd, Guest::Halted)?
        }
        "wake-up-sleeping" => {
            interrupts::inject(&mut aligned(settings, Some(0))?, Signal::Irqfd, Guest::Asleep)?
        }
        "page-fault-4k" => return faults::fresh(bench, faults::SMALL),
        "page-fault-2m" => return faults::fresh(bench, faults::LARGE),
        "dirty-log-fault" => return faults::dirty_log(bench),
        exit => exits::exit(bench, exit, bench.samples())?,
    };
    Ok(found.split_off(WARM_UP))
}
