//! The data by which the state of a worker's thread is observed. The control thread reads it to detect whether and
//! where the worker is stuck.
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crate::{PortId, QueueId};

/// The code for a thread that is in no queue.
const NOWHERE: u64 = u64::MAX;

/// The heartbeat. The worker writes it with plain stores, once for each burst.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// The thread's number in the kernel.
    thread: AtomicI32,
    source: AtomicU64,
    sink: AtomicU64,
    /// Another thread has taken this one's place; this one must not touch anything any more.
    abandoned: AtomicBool,
}

/// The queues that a thread is in: the source of the burst, and the sink if a sink's call is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkerPosition {
    pub source: Option<QueueId>,
    pub sink: Option<QueueId>,
}

/// The kernel's data about a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// The thread runs or waits for a CPU. `cpu` is the CPU time that the thread has used since it started.
    Runnable { cpu: Duration },
    /// The thread waits for something other than a CPU.
    Blocked,
    /// A signal or a debugger has stopped the thread.
    Stopped,
}

fn code(id: QueueId) -> u64 {
    u64::from(id.port.0) << 16 | u64::from(id.pair)
}

fn queue(code: u64) -> Option<QueueId> {
    (code != NOWHERE).then_some(QueueId { port: PortId((code >> 16) as u16), pair: code as u16 })
}

impl Heartbeat {
    pub fn new() -> Self {
        Heartbeat {
            thread: AtomicI32::new(0),
            source: AtomicU64::new(NOWHERE),
            sink: AtomicU64::new(NOWHERE),
            abandoned: AtomicBool::new(false),
        }
    }

    /// Notes that the calling thread is the worker.
    pub fn begin(&self) {
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn enter_source(&self, id: QueueId) {
        self.source.store(code(id), Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn enter_sink(&self, id: QueueId) {
        self.sink.store(code(id), Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn leave_sink(&self) {
        self.sink.store(NOWHERE, Ordering::Relaxed);
    }

    /// Notes that the worker is no longer in a source.
    pub fn leave_source(&self) {
        self.source.store(NOWHERE, Ordering::Relaxed);
    }

    /// The queues that the worker is in, or was in last.
    pub fn position(&self) -> WorkerPosition {
        let read = |at: &AtomicU64| queue(at.load(Ordering::Relaxed));
        WorkerPosition { source: read(&self.source), sink: read(&self.sink) }
    }

    /// Marks the worker as abandoned: another thread does its work from now on.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
    }

    /// Whether the worker was abandoned. The worker checks this after each claim of a queue, because a queue that
    /// an abandoned worker claims belongs to another thread.
    #[inline(always)]
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The thread's number.
    pub fn thread(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// The kernel's data about the thread; `None` if it cannot be read.
    pub fn state(&self) -> Option<ThreadState> {
        let stat = fs::read_to_string(format!("/proc/self/task/{}/stat", self.thread())).ok()?;
        parse(&stat)
    }
}

/// proc_pid_stat(5).
fn parse(stat: &str) -> Option<ThreadState> {
    /// The unit of utime and stime; the kernel's ABI on every supported architecture.
    const TICKS_PER_SECOND: u64 = 100;
    // The name is in parentheses and may have any character.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some(match fields.next()? {
        "R" => {
            let mut ticks = fields.skip(10).map(str::parse::<u64>);
            let ticks = ticks.next()?.ok()?.saturating_add(ticks.next()?.ok()?);
            ThreadState::Runnable {
                cpu: Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)),
            }
        }
        "T" | "t" => ThreadState::Stopped,
        _ => ThreadState::Blocked,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn positions_come_back_as_they_were_left() {
        let heartbeat = Heartbeat::new();
        assert_eq!(heartbeat.position(), WorkerPosition { source: None, sink: None });
        let of = |port, pair| QueueId { port: PortId(port), pair };
        heartbeat.enter_source(of(u16::MAX, u16::MAX));
        heartbeat.enter_sink(of(3, 7));
        let position = heartbeat.position();
        assert_eq!(position, WorkerPosition { source: Some(of(u16::MAX, u16::MAX)), sink: Some(of(3, 7)) });
        heartbeat.leave_sink();
        heartbeat.leave_source();
        assert_eq!(heartbeat.position(), WorkerPosition { source: None, sink: None });
    }

    #[test]
    fn a_name_may_look_like_the_rest() {
        let stat = "7 (a) R (b) S 1 1 1 0 -1 4194304 9 0 0 0 12 34 0 0 20 0 1 0 100 0 0";
        assert_eq!(parse(stat), Some(ThreadState::Blocked));
        let stat = "7 (a) S) R 1 1 1 0 -1 4194304 9 0 0 0 12 34 0 0 20 0 1 0 100 0 0";
        assert_eq!(parse(stat), Some(ThreadState::Runnable { cpu: Duration::from_millis(460) }));
        assert_eq!(parse("7 (a) t 1"), Some(ThreadState::Stopped));
        assert_eq!((parse("7 (a"), parse("7 (a) R 1"), parse("")), (None, None, None));
    }

    #[test]
    fn the_kernel_tells_a_thread_that_runs_from_one_that_waits() {
        let heartbeat = Arc::new(Heartbeat::new());
        let its = Arc::clone(&heartbeat);
        let (go_on, waits) = channel::<()>();
        let thread = std::thread::spawn(move || {
            its.begin();
            let _ = waits.recv();
            while !its.is_abandoned() {
                std::hint::spin_loop();
            }
        });
        let limit = Instant::now() + Duration::from_secs(20);
        while heartbeat.thread() == 0 || heartbeat.state() != Some(ThreadState::Blocked) {
            assert!(Instant::now() < limit, "{:?}", heartbeat.state());
        }
        drop(go_on);
        let ran =
            |state| matches!(state, Some(ThreadState::Runnable { cpu }) if cpu > Duration::from_millis(50));
        while !ran(heartbeat.state()) {
            assert!(Instant::now() < limit, "{:?}", heartbeat.state());
        }
        heartbeat.abandon();
        thread.join().unwrap();
    }
}
