//! The receiver of ticks: a thread in user space that waits for the interrupt, or polls the shared page.

mod counts;
mod work;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use clocks::{Alignment, now_ns, sleep_until_ns};
use linux::scheduler::{self, Policy};
use measure::Failure;
use pv_sched::Hints;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use serde::{Deserialize, Serialize};

use crate::page::{Page, Step};
use crate::realign;
use counts::Counts;
pub use counts::Received;
use work::Work;

/// How the receiver learns of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// The receiver sleeps until the interrupt comes.
    Interrupt,
    /// The receiver polls the shared page.
    Poll,
    /// The receiver sleeps until the next tick is due, by its own CPU's timer. The interrupt only gives the time of
    /// the first one.
    Timer,
}

/// The settings of a receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How the receiver learns of a tick.
    pub wait: Wait,
    /// The receiver's SCHED_FIFO priority; `None` for the ordinary policy.
    pub priority: Option<i32>,
    /// The time from one tick to the next, ns.
    pub interval_ns: u64,
    /// The budget, ns: a tick that is received later than this after it was due is late.
    pub budget_ns: u64,
    /// Whether the receiver gives hints when it runs and when the next tick is due, so that its vCPU is raised.
    pub hints: bool,
    /// CPU time of the work for each tick, ns.
    pub work_ns: u64,
    /// The receiver gives up if no tick came for this time, ms.
    pub silence_ms: u64,
}

/// Receives ticks until the source has ended. Sets `hints` when it runs and when the next tick is due.
///
/// # Errors
/// The source does not answer, or sends no ticks.
pub fn run(
    page: &Page,
    interrupt: &OwnedFd,
    hints: Option<&Hints>,
    plan: &Plan,
) -> Result<Received, Failure> {
    let mut remarks = Vec::new();
    let mut want = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            remarks.push(format!("receiver: no {what}: {error}"));
        }
    };
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    want("locked memory", mlockall(all).map_err(io::Error::from));
    page.touch();
    let work = Work::of(plan.work_ns);
    let mut counts = Counts::new(plan.budget_ns, Alignment::find(page.exchange())?);
    if let Some(priority) = plan.priority {
        want(&format!("SCHED_FIFO {priority}"), scheduler::set(Policy::Fifo(priority)));
    }
    page.set_step(Step::Ready);
    let outcome = receive(page, interrupt, hints, plan, work, &mut counts);
    say(hints, false, 0);
    let _ = scheduler::set(Policy::Normal);
    let after = outcome.and_then(|()| Alignment::find(page.exchange()));
    page.set_step(Step::Done);
    Ok(counts.finish(page, after?, remarks))
}

fn receive(
    page: &Page,
    interrupt: &OwnedFd,
    hints: Option<&Hints>,
    plan: &Plan,
    work: Work,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let silence = Duration::from_millis(plan.silence_ms);
    let interrupt = rustix::fd::AsFd::as_fd(interrupt);
    let mut seen = 0;
    let mut is_pending = false;
    let mut next_due_ns = None;
    loop {
        let ended = match plan.wait {
            Wait::Interrupt if is_pending => false,
            Wait::Interrupt => {
                wait(interrupt, silence).map_err(silent)?;
                false
            }
            Wait::Poll => spin(page, seen, silence).map_err(silent)?,
            Wait::Timer => {
                match next_due_ns {
                    None => wait(interrupt, silence),
                    Some(due_ns) => sleep_until_ns(counts.alignment().of_receiver(due_ns)),
                }
                .map_err(silent)?;
                spin(page, seen, silence).map_err(silent)?
            }
        };
        // In user space, by whichever way. The end is read before the last number: what was sent before it is seen; and
        // that before the clock: no tick of these was sent after it was received.
        let ended = ended || page.has_ended();
        let latest = page.latest();
        let received_ns = now_ns();
        say(hints, true, 0);
        let mut last_due_ns = None;
        counts.woken(latest.saturating_sub(seen));
        for number in seen + 1..=latest {
            if let Some(tick) = page.tick(number) {
                last_due_ns = Some(tick.due_ns);
                work.run();
                page.set_received(number, received_ns, now_ns());
            } else {
                counts.lost();
            }
        }
        if plan.wait == Wait::Interrupt {
            counts.interrupts(take(interrupt).map_err(silent)?);
            // The interrupt of a tick that came between the reading of the page and this moment has been taken: no
            // interrupt would wake this thread for it.
            is_pending = page.latest() > latest || page.has_ended();
        }
        if ended {
            counts.seen(latest);
            return Ok(());
        }
        // A window in which the source answers, behind some of the ticks.
        if realign::is_between(seen, latest) {
            let until_ns = received_ns + realign::window_ns(plan.interval_ns);
            counts.aligned(Alignment::find_until(page.exchange(), until_ns), latest);
        }
        counts.settle(page, SETTLED_AT_ONCE);
        next_due_ns = last_due_ns.map(|due_ns| due_ns + plan.interval_ns);
        say(hints, false, next_due_ns.unwrap_or(0));
        seen = seen.max(latest);
    }
}

/// For the host: whether the receiver runs, and when the next tick is due, ns of the source's clock; 0 for unknown.
fn say(hints: Option<&Hints>, runs: bool, due_ns: u64) {
    let Some(hints) = hints else { return };
    if due_ns > 0 || !runs {
        hints.set_due_ns(0, due_ns);
    }
    hints.set_runs(0, runs);
}

/// More than one a tick, so that it is done before the next alignment; few, so that the next tick is not late for it.
const SETTLED_AT_ONCE: usize = 4;

fn silent(error: io::Error) -> Failure {
    Failure::new("waiting for a tick", error, "see whether the source still runs")
}

/// Waits until the descriptor is readable.
fn wait(interrupt: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    loop {
        match poll(&mut [PollFd::new(&interrupt, PollFlags::IN)], Some(&limit)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The interrupts since the last time.
fn take(interrupt: BorrowedFd<'_>) -> io::Result<u64> {
    let mut count = [0; size_of::<u64>()];
    match rustix::io::read(interrupt, &mut count) {
        // The thread read the eventfd again before any interrupt had come.
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        read => read.map(|_| u64::from_ne_bytes(count)).map_err(io::Error::from),
    }
}

/// Spins until there is a tick after `seen`, or the source has ended; returns whether it has ended.
fn spin(page: &Page, seen: u64, limit: Duration) -> io::Result<bool> {
    let start_ns = now_ns();
    loop {
        if page.latest() > seen {
            return Ok(false);
        }
        if page.has_ended() {
            return Ok(true);
        }
        if now_ns() - start_ns > limit.as_nanos() as u64 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::hint::spin_loop();
    }
}
