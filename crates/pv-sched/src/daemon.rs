//! The host's side: a thread that reads hints and raises vCPU threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use clocks::{Exchange, now_ns};
use linux::cpus;
use linux::scheduler::{self, Policy};
use measure::Failure;
use rustix::io::Errno;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use serde::{Deserialize, Serialize};

use crate::vcpu::State;
use crate::{Hints, Settings};

/// For how long, at each look, the daemon answers a guest that goes on asking.
const ANSWER_NS: u64 = 5_000;

/// A thread that may be raised, and the hints that ask for it.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// The thread.
    pub thread: i32,
    /// The hints of the thread's guest.
    pub hints: Arc<Hints>,
    /// The slot of this vCPU in the hints.
    pub slot: usize,
    /// The vCPU's CPU; `None` if it may run on any.
    pub cpu: Option<usize>,
}

/// The results of raising one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The thread.
    pub thread: i32,
    /// How often the vCPU was raised.
    pub raised: u64,
    /// How long the vCPU was raised in total, in ns.
    pub raised_ns: u64,
    /// How often the vCPU's budget was used up while the vCPU requested more.
    pub exhausted: u64,
    /// Why the vCPU's policy could not be changed. The vCPU was not raised after that. The end of the thread is not
    /// reported here.
    pub failed: Option<String>,
}

/// The thread that raises vCPUs. Dropping it restores every policy.
#[derive(Debug)]
pub struct Daemon {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Raised>>>,
}

impl Daemon {
    /// Begins to read hints, and to answer the questions of `asked` about the host's time.
    ///
    /// # Errors
    /// The limits leave too little time to others, a thread has ended, or SCHED_FIFO is refused.
    pub fn start(settings: Settings, vcpus: Vec<Vcpu>, asked: Vec<Exchange>) -> Result<Self, Failure> {
        settings.check(most_on_one_cpu(&vcpus))?;
        let mut watched = Vec::new();
        for vcpu in vcpus {
            let ordinary = scheduler::of(vcpu.thread).map_err(|error| {
                let tried = format!("asking for the policy of thread {}", vcpu.thread);
                Failure::new(tried, error, "see whether the guest still runs")
            })?;
            watched.push(Watched {
                vcpu,
                ordinary,
                state: State::new(&settings, now_ns()),
                left_alone: None,
            });
        }
        let end = Arc::<AtomicBool>::default();
        let (told, ready) = std::sync::mpsc::channel();
        let its_end = Arc::clone(&end);
        let thread = thread::Builder::new().name("pv-sched".into()).spawn(move || {
            let prepared = prepare(&settings);
            let is_ready = prepared.is_ok();
            let _ = told.send(prepared);
            if is_ready {
                look(&settings, &mut watched, &asked, &its_end);
            }
            watched.into_iter().map(Watched::put_back).collect()
        });
        let thread = thread.map_err(|error| {
            Failure::new("starting the thread that raises vCPUs", error, "end other programs")
        })?;
        let daemon = Daemon { end, thread: Some(thread) };
        match ready.recv() {
            Ok(Ok(())) => Ok(daemon),
            Ok(Err(error)) => Err(Failure::new(
                "giving SCHED_FIFO to the thread that raises vCPUs",
                error,
                "start it as root or with CAP_SYS_NICE",
            )),
            Err(_) => Err(Failure::panicked("starting the thread that raises vCPUs")),
        }
    }

    /// Ends the daemon. Returns what was done for each vCPU, in the order in which they were given.
    pub fn end(mut self) -> Vec<Raised> {
        self.join()
    }

    fn join(&mut self) -> Vec<Raised> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.join();
    }
}

/// A vCPU's thread with its state.
struct Watched {
    vcpu: Vcpu,
    /// The thread's policy before it was raised.
    ordinary: Policy,
    state: State,
    left_alone: Option<LeftAlone>,
}

/// Why a vCPU is not looked after any more.
enum LeftAlone {
    /// The thread has ended, together with its policy: a guest may end while it is raised.
    Ended,
    Refused(io::Error),
}

impl Watched {
    /// Raises it to a priority, or puts it back.
    fn set(&mut self, priority: Option<i32>) {
        let set = match priority {
            // Processes that the thread starts must not inherit the priority.
            Some(priority) => scheduler::raise(self.vcpu.thread, priority),
            None => scheduler::set_of(self.vcpu.thread, self.ordinary),
        };
        self.left_alone = match set {
            Ok(()) => None,
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Some(LeftAlone::Ended),
            Err(error) => Some(LeftAlone::Refused(error)),
        }
    }

    fn put_back(mut self) -> Raised {
        if self.left_alone.is_none() {
            self.set(None);
        }
        Raised {
            thread: self.vcpu.thread,
            raised: self.state.raised,
            raised_ns: self.state.raised_ns,
            exhausted: self.state.exhausted,
            failed: self.left_alone.and_then(|why| match why {
                LeftAlone::Ended => None,
                LeftAlone::Refused(error) => Some(error.to_string()),
            }),
        }
    }
}

fn prepare(settings: &Settings) -> io::Result<()> {
    if !settings.cpus.is_empty() {
        cpus::bind(&settings.cpus)?;
    }
    // The thread that raises others must run before them, or no thread would ever be lowered.
    scheduler::set(Policy::Fifo(settings.priority + 1))
}

/// The most vCPUs that can be on one CPU: a vCPU that may run anywhere counts for each CPU.
fn most_on_one_cpu(vcpus: &[Vcpu]) -> usize {
    let on = |cpu: Option<usize>| vcpus.iter().filter(|vcpu| vcpu.cpu == cpu).count();
    let most = vcpus.iter().filter_map(|vcpu| vcpu.cpu).map(|cpu| on(Some(cpu))).max();
    on(None) + most.unwrap_or_default()
}

fn look(settings: &Settings, watched: &mut [Watched], asked: &[Exchange], end: &AtomicBool) {
    while !end.load(Ordering::Relaxed) {
        let mut again_ns = now_ns() + settings.look.as_nanos() as u64;
        for one in watched.iter_mut().filter(|one| one.left_alone.is_none()) {
            let was_raised = one.state.is_raised();
            let decision = one.state.look(one.vcpu.hints.read(one.vcpu.slot), now_ns(), settings);
            if decision.raise != was_raised {
                one.set(decision.raise.then_some(settings.priority));
            }
            again_ns = again_ns.min(decision.look_again_ns);
        }
        asked.iter().for_each(answer);
        sleep_until(again_ns);
    }
}

/// Answers a guest. More questions follow at once, whose way is the shorter for not waiting for the next look; a guest
/// that does not end gets no more than this.
fn answer(exchange: &Exchange) {
    if exchange.answer() {
        let until_ns = now_ns() + ANSWER_NS;
        while now_ns() < until_ns {
            exchange.answer();
        }
    }
}

pub(crate) fn sleep_until(due_ns: u64) {
    let due = Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as _ };
    // Woken by a signal it looks early, which does no harm.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &due);
}
