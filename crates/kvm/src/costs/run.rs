//! The sequence of a run. It is on a separate thread, because a guest may hang in KVM_RUN.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use linux::interrupt;
use measure::Failure;

use super::bench::{Bench, WARM_UP};
use super::catalogue::{ROWS, Row};
use super::results::Cost;
use super::settings::{Prepared, Settings};
use super::{exits, faults, interrupts, turns};
use crate::micro_vm::{Arguments, Program, Stop, tsc};

/// How long each of the steps before the first row may take: making the machine, and a trial of its exits. Each of them
/// may hang with a `/dev/kvm` that cannot run such a guest.
const START: Duration = Duration::from_secs(4);
/// How long a row may take, with all its samples, and at least.
const ROW: Duration = Duration::from_secs(120);
const SHORT_ROW: Duration = Duration::from_secs(20);
/// The time for each sample of a row: on an emulated CPU that is shared with others, the slowest sample takes 30 ms.
const SAMPLE: Duration = Duration::from_millis(50);
/// How long a guest may take to end after it was told to.
const STOP: Duration = Duration::from_secs(2);
/// After this many rows in which the guest hung, no further row is begun.
const HUNG: usize = 3;

/// The thread's reports before the first row.
enum Starting {
    Trying(&'static str),
    /// The thread is prepared, or ends.
    Done(Result<Prepared, Failure>),
}

/// The thread's reports once it is prepared.
enum Measuring {
    /// The row, and the value that can end it.
    Began(&'static Row, Arc<Stop>),
    Measured(Box<Cost>),
}

/// The row that is being measured.
struct Running {
    row: &'static Row,
    stop: Arc<Stop>,
}

/// The rows that were measured.
struct Rows {
    costs: Vec<Cost>,
    /// Whether the thread has ended. If not, it is left running.
    is_over: bool,
}

/// How long a signal may wait to be noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Measures all rows, and calls `began` before each. Rows that cannot be measured contain the reason. A row in which
/// the guest hangs is ended, and the next begins with a new guest. After a signal ([`interrupt::is_set`]) only the
/// rows so far are returned.
///
/// After a signal, or if a guest cannot be ended, the thread is left running, and the process should end soon.
///
/// # Errors
/// This KVM cannot run the guest within the time limit, or a signal (SIGINT, SIGTERM, SIGHUP) came before the first
/// row. A later row that fails is part of the results, with its reason.
pub fn measure(
    settings: &Settings,
    mut began: impl FnMut(&'static Row),
) -> Result<(Prepared, Vec<Cost>), Failure> {
    let (starting, starts) = mpsc::channel();
    let (measuring, measured) = mpsc::channel();
    let theirs = settings.clone();
    let thread = std::thread::spawn(move || {
        let found = prepare(&theirs, &starting);
        // A send fails once the caller has given up; there is nothing to do then. The other sends are ignored likewise.
        let (bench, prepared) = match found {
            Ok(found) => found,
            Err(failure) => return drop(starting.send(Starting::Done(Err(failure)))),
        };
        let tsc_khz = prepared.tsc_khz;
        let _ = starting.send(Starting::Done(Ok(prepared)));
        rows(bench, &theirs, tsc_khz, &measuring);
    });
    let prepared = wait_for_start(&starts)?;
    let rows = collect(settings, &measured, prepared.tsc_khz, &mut began)?;
    if rows.is_over {
        thread.join().map_err(|_| Failure::panicked("measuring the costs of exits"))?;
    }
    Ok((prepared, rows.costs))
}

/// Waits until the thread is prepared.
fn wait_for_start(events: &mpsc::Receiver<Starting>) -> Result<Prepared, Failure> {
    let mut doing = "making a virtual machine";
    let mut since = Instant::now();
    loop {
        match events.recv_timeout(LOOK) {
            Ok(Starting::Trying(what)) => (doing, since) = (what, Instant::now()),
            Ok(Starting::Done(found)) => return found,
            Err(mpsc::RecvTimeoutError::Timeout) if interrupt::is_set() => {
                return Err(Failure::new(doing, "a signal", "let it run to its end"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) if since.elapsed() >= START => {
                return Err(Failure::new(
                    format!("running an unmodified guest: {doing}"),
                    format!("no end within {} s", START.as_secs()),
                    "measure on a machine whose KVM runs such guests (VMX or SVM)",
                ));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Failure::panicked(doing)),
        }
    }
}

/// Collects the rows, and ends those in which the guest hangs.
fn collect(
    settings: &Settings,
    events: &mpsc::Receiver<Measuring>,
    tsc_khz: u32,
    began: &mut impl FnMut(&'static Row),
) -> Result<Rows, Failure> {
    let mut costs = Vec::new();
    let mut running: Option<Running> = None;
    let mut since = Instant::now();
    loop {
        let event = events.recv_timeout(LOOK);
        if event.is_ok() {
            since = Instant::now();
        }
        match event {
            Ok(Measuring::Began(row, stop)) => {
                began(row);
                running = Some(Running { row, stop });
            }
            Ok(Measuring::Measured(cost)) => costs.push(*cost),
            Err(mpsc::RecvTimeoutError::Timeout) if interrupt::is_set() => {
                return Ok(Rows { costs, is_over: false });
            }
            Err(mpsc::RecvTimeoutError::Timeout) => match &running {
                Some(Running { row: hanging, stop }) if since.elapsed() >= limit(settings) + STOP => {
                    debug_assert!(stop.is_wanted(), "it was told to end");
                    let not_measured = |row: &Row| {
                        let answer =
                            format!("the guest hangs in \"{}\", and no signal ends it", hanging.title);
                        Cost::new(row, Err(hung(row, &answer)), tsc_khz)
                    };
                    costs.extend(ROWS[costs.len()..].iter().map(not_measured));
                    return Ok(Rows { costs, is_over: false });
                }
                Some(Running { stop, .. }) if since.elapsed() >= limit(settings) => stop.end()?,
                _ => {}
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Rows { costs, is_over: true }),
        }
    }
}

/// How long a row may take.
fn limit(settings: &Settings) -> Duration {
    (SHORT_ROW + SAMPLE * settings.samples as u32).min(ROW)
}

fn hung(row: &Row, answer: &str) -> Failure {
    let remedy = "repeat it; where it stays so, see the kernel's log (`dmesg`)";
    Failure::new(format!("measuring {}", row.title), answer, remedy)
}

/// A machine whose clocks are aligned with the host's.
fn aligned(settings: &Settings, halt_poll_ns: Option<u64>, stop: Arc<Stop>) -> Result<Bench, Failure> {
    let mut bench = Bench::new(settings, halt_poll_ns, stop)?;
    bench.alignment = interrupts::align(&mut bench)?;
    Ok(bench)
}

/// Makes a machine whose exits were tried and whose clocks are aligned.
fn prepare(settings: &Settings, sender: &mpsc::Sender<Starting>) -> Result<(Bench, Prepared), Failure> {
    let mut bench = Bench::new(settings, None, Arc::default())?;
    let _ = sender.send(Starting::Trying("exchanging time stamps with it"));
    bench.alignment = interrupts::align(&mut bench)?;
    for row in ROWS.iter().filter(|row| exits::program(row.id).is_some()) {
        // One sample is enough: a trial that hangs shows what this KVM cannot do.
        let _ = sender.send(Starting::Trying(row.title));
        exits::exit(&mut bench, row.id, 1)?;
    }
    let tsc_khz = bench.vcpus[0].tsc_khz()?;
    let prepared = Prepared { emulated: tsc::is_emulated(), tsc_khz, alignment: bench.alignment };
    Ok((bench, prepared))
}

/// Measures all rows. A row in which the guest hung is followed by one with a new guest.
fn rows(bench: Bench, settings: &Settings, tsc_khz: u32, sender: &mpsc::Sender<Measuring>) {
    let mut bench = Ok(bench);
    let mut times_hung = 0;
    for row in ROWS {
        let since = Instant::now();
        let stop = bench.as_ref().map_or_else(|_| Arc::default(), |bench| bench.stop.clone());
        let _ = sender.send(Measuring::Began(row, stop.clone()));
        if bench.is_err() && times_hung < HUNG {
            bench = aligned(settings, None, stop.clone());
        }
        let mut found = match &mut bench {
            Ok(bench) => samples(row, bench, settings),
            Err(failure) => Err(failure.clone()),
        };
        // A guest that was ended has interrupts and registers of unknown state: the next row gets a new guest.
        if let (true, Err(failure)) = (stop.is_wanted(), &found) {
            times_hung += 1;
            let answer = match since.elapsed() >= limit(settings) {
                true => format!("no end within {} s: {failure}", limit(settings).as_secs()),
                false => failure.to_string(),
            };
            let failure = hung(row, &answer);
            bench = Err(failure.clone());
            found = Err(failure);
        }
        let _ = sender.send(Measuring::Measured(Box::new(Cost::new(row, found, tsc_khz))));
    }
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
            let stop = bench.stop.clone();
            interrupts::inject(&mut aligned(settings, Some(POLL_NS), stop)?, Signal::Irqfd, Guest::Halted)?
        }
        "wake-up-sleeping" => {
            let stop = bench.stop.clone();
            interrupts::inject(&mut aligned(settings, Some(0), stop)?, Signal::Irqfd, Guest::Asleep)?
        }
        "page-fault-4k" => return faults::fresh(bench, faults::SMALL),
        "page-fault-2m" => return faults::fresh(bench, faults::LARGE),
        "dirty-log-fault" => return faults::dirty_log(bench),
        "vm-switch" => switches(bench)?,
        exit => exits::exit(bench, exit, bench.samples())?,
    };
    Ok(found.split_off(WARM_UP))
}

/// Two virtual machines on the first CPU, in turns.
fn switches(bench: &mut Bench) -> Result<Vec<u64>, Failure> {
    let mut other = Bench::new(&bench.settings, None, bench.stop.clone())?;
    let (samples, cpu) = (bench.samples(), bench.settings.cpus[0]);
    turns::switches([bench, &mut other], samples, cpu, tsc::stamp, |bench, exits, at_exit| {
        let arguments = Arguments { samples: exits, ..Default::default() };
        bench.vcpus[0].run_with(Program::OutUser, arguments, at_exit)
    })
}
