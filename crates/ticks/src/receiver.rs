//! Where the ticks go: a thread in user space that waits for the interrupt, or polls the shared page.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use linux::scheduler::{self, Policy};
use measure::{Failure, Histogram};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MlockAllFlags, mlockall};
use serde::{Deserialize, Serialize};

use crate::clock::{Alignment, now_ns};
use crate::page::{Page, Step, Tick};

/// How the receiver learns of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// It sleeps until the interrupt comes.
    Interrupt,
    /// It reads the shared page again and again.
    Poll,
}

/// What is received, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How it learns of a tick.
    pub wait: Wait,
    /// Its SCHED_FIFO priority; otherwise the ordinary policy.
    pub priority: Option<i32>,
    /// A tick that is received later than this after it was due is late, ns.
    pub budget_ns: u64,
    /// It gives up when no tick came for so long, ms.
    pub silence_ms: u64,
}

/// What the receiver saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Ticks whose numbers it saw.
    pub ticks: u64,
    /// Numbers that it never saw: overwritten before it ran.
    pub lost: u64,
    /// Ticks that it found beside another one: their interrupts had merged, or it was away.
    pub coalesced: u64,
    /// How often it woke.
    pub wake_ups: u64,
    /// Interrupts that the kernel had counted for it; 0 where it polls.
    pub interrupts: u64,
    /// Ticks received after the budget.
    pub late: u64,
    /// Ticks received before they were sent by more than the clocks' error: must be 0.
    pub before_sent: u64,
    /// From due to running in user space.
    pub from_due: Histogram,
    /// From sent to running in user space.
    pub from_sent: Histogram,
    /// The latest tick: number, ns from due to sent, ns from sent to received.
    pub worst: (u64, u64, u64),
    /// The clocks, before the first tick.
    pub alignment: Alignment,
    /// By how much the clocks' offset had changed after the last tick, ns.
    pub drift_ns: i64,
    /// What was wanted and refused.
    pub remarks: Vec<String>,
}

/// Receives until the source has ended.
///
/// # Errors
/// The source does not answer, or is silent.
pub fn run(page: &Page, interrupt: &OwnedFd, plan: &Plan) -> Result<Received, Failure> {
    let mut remarks = Vec::new();
    let mut want = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            remarks.push(format!("receiver: no {what}: {error}"));
        }
    };
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    want("locked memory", mlockall(all).map_err(io::Error::from));
    let alignment = Alignment::find(page, 1)?;
    let mut received = Received {
        ticks: 0,
        lost: 0,
        coalesced: 0,
        wake_ups: 0,
        interrupts: 0,
        late: 0,
        before_sent: 0,
        from_due: Histogram::new(),
        from_sent: Histogram::new(),
        worst: (0, 0, 0),
        alignment,
        drift_ns: 0,
        remarks: Vec::new(),
    };
    if let Some(priority) = plan.priority {
        want(&format!("SCHED_FIFO {priority}"), scheduler::set(Policy::Fifo(priority)));
    }
    page.set_step(Step::Ready);
    let outcome = receive(page, interrupt.as_fd(), plan, &mut received);
    let _ = scheduler::set(Policy::Normal);
    let after = outcome.and_then(|()| Alignment::find(page, 1 + Alignment::QUESTIONS));
    page.set_step(Step::Done);
    received.drift_ns = after?.offset_ns - alignment.offset_ns;
    received.remarks = remarks;
    Ok(received)
}

fn receive(
    page: &Page,
    interrupt: BorrowedFd<'_>,
    plan: &Plan,
    received: &mut Received,
) -> Result<(), Failure> {
    let silence = Duration::from_millis(plan.silence_ms);
    let mut seen = 0;
    loop {
        let ended = match plan.wait {
            Wait::Interrupt => {
                wait(interrupt, silence).map_err(silent)?;
                false
            }
            Wait::Poll => spin(page, seen, silence).map_err(silent)?,
        };
        // In user space, by whichever way.
        let now_ns = received.alignment.of_source(now_ns());
        // The end is read before the last number: what was sent before it is seen.
        let ended = ended || page.has_ended();
        let latest = page.latest();
        received.wake_ups += 1;
        received.coalesced += latest.saturating_sub(seen + 1);
        for number in seen + 1..=latest {
            match page.tick(number) {
                Some(tick) => received.count(tick, now_ns, plan.budget_ns),
                None => received.lost += 1,
            }
        }
        seen = seen.max(latest);
        if plan.wait == Wait::Interrupt {
            received.interrupts += take(interrupt).map_err(silent)?;
        }
        if ended {
            return Ok(());
        }
    }
}

impl Received {
    fn count(&mut self, tick: Tick, now_ns: u64, budget_ns: u64) {
        let (from_due, from_sent) = (now_ns.saturating_sub(tick.due_ns), now_ns.saturating_sub(tick.sent_ns));
        self.ticks += 1;
        self.from_due.record_ns(from_due);
        self.from_sent.record_ns(from_sent);
        self.late += u64::from(from_due > budget_ns);
        self.before_sent += u64::from(now_ns + self.alignment.error_ns < tick.sent_ns);
        if from_due > self.worst.1 + self.worst.2 {
            self.worst = (tick.number, tick.sent_ns - tick.due_ns, from_sent);
        }
    }
}

fn silent(error: io::Error) -> Failure {
    Failure::new("waiting for a tick", error, "see whether the source still runs")
}

/// Until the descriptor is readable.
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
    rustix::io::read(interrupt, &mut count)?;
    Ok(u64::from_ne_bytes(count))
}

/// Until there is a tick after `seen`, or the end: which of both.
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
