//! How a worker spends its time. The clock is read at the end of each state, and around one pass of
//! [`PASSES_PER_TIMED`].
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::heartbeat::Heartbeat;

/// One of this many passes is timed: enough to know the cost of a frame, and too few to add a cost.
const PASSES_PER_TIMED: u64 = 16;

/// The state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    /// Frames come.
    Busy,
    /// No frames come; the worker polls its sources.
    Spinning,
    /// The worker sleeps until it is woken.
    Asleep,
}

/// The counts of a worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WorkerCounts {
    /// Passes over all sources that found something.
    pub passes_moved: u64,
    /// Passes that found nothing.
    pub passes_empty: u64,
    /// Frames taken from sources.
    pub frames: u64,
    /// The number of frames that were flooded to all other ports.
    pub flooded: u64,
    /// How often flooded frames were given to sinks.
    pub flood_copies: u64,
    /// Frames given to sinks, a flooded frame once for each sink. Frames that a sink dropped are counted by the
    /// sink.
    pub copies: u64,
    /// How often the worker went to sleep.
    pub sleeps: u64,
    /// Wake-ups by a descriptor. All other wake-ups were by time.
    pub wakes: u64,
    /// Nanoseconds in which frames came, including short gaps between bursts.
    pub busy_ns: u64,
    /// Nanoseconds of polling without frames.
    pub spinning_ns: u64,
    /// Nanoseconds asleep.
    pub asleep_ns: u64,
    /// Nanoseconds of the timed passes that found something. One pass of 16 is timed.
    pub timed_ns: u64,
    /// Frames that the timed passes moved.
    pub timed_frames: u64,
}

impl WorkerCounts {
    /// The sum of both: the counts of a worker in two threads.
    pub(crate) fn plus(self, other: WorkerCounts) -> WorkerCounts {
        WorkerCounts {
            passes_moved: self.passes_moved + other.passes_moved,
            passes_empty: self.passes_empty + other.passes_empty,
            frames: self.frames + other.frames,
            flooded: self.flooded + other.flooded,
            flood_copies: self.flood_copies + other.flood_copies,
            copies: self.copies + other.copies,
            sleeps: self.sleeps + other.sleeps,
            wakes: self.wakes + other.wakes,
            busy_ns: self.busy_ns + other.busy_ns,
            spinning_ns: self.spinning_ns + other.spinning_ns,
            asleep_ns: self.asleep_ns + other.asleep_ns,
            timed_ns: self.timed_ns + other.timed_ns,
            timed_frames: self.timed_frames + other.timed_frames,
        }
    }
}

/// The counts of one forwarded burst.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Frames that went to every other port.
    pub flooded: u64,
    /// How often flooded frames were given to sinks.
    pub flood_copies: u64,
    /// Frames given to sinks, once for each sink.
    pub copies: u64,
}

/// The counters of a worker. One thread writes them, and any thread may read them.
#[derive(Debug)]
#[repr(align(128))] // lines of its own, and of the neighbour that the prefetcher brings along
pub(crate) struct WorkerCounters {
    epoch: Instant,
    state: AtomicU8,
    since_ns: AtomicU64,
    in_state_ns: [AtomicU64; 3],
    passes: [AtomicU64; 2],
    frames: AtomicU64,
    flooded: AtomicU64,
    flood_copies: AtomicU64,
    copies: AtomicU64,
    sleeps: AtomicU64,
    wakes: AtomicU64,
    timed_ns: AtomicU64,
    timed_frames: AtomicU64,
    pub heartbeat: Heartbeat,
}

/// A pass in progress.
pub(crate) struct Pass {
    /// If the pass is timed: when it began, and how many frames there were before.
    timed: Option<(Instant, u64)>,
}

#[inline(always)]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl WorkerCounters {
    pub fn new() -> Self {
        WorkerCounters {
            epoch: Instant::now(),
            state: AtomicU8::new(WorkerState::Asleep as u8),
            since_ns: AtomicU64::default(),
            in_state_ns: Default::default(),
            passes: Default::default(),
            frames: AtomicU64::default(),
            flooded: AtomicU64::default(),
            flood_copies: AtomicU64::default(),
            copies: AtomicU64::default(),
            sleeps: AtomicU64::default(),
            wakes: AtomicU64::default(),
            timed_ns: AtomicU64::default(),
            timed_frames: AtomicU64::default(),
            heartbeat: Heartbeat::new(),
        }
    }

    /// Whether the worker sleeps, or has not started.
    pub fn is_asleep(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WorkerState::Asleep as u8
    }

    /// All passes over its sources so far.
    #[inline(always)]
    pub fn passes(&self) -> u64 {
        self.passes.iter().fold(0, |sum, passes| sum + passes.load(Ordering::Relaxed))
    }

    /// Enters another state. Returns the time at which it begins.
    pub fn enter(&self, state: WorkerState) -> Instant {
        let now = Instant::now();
        let now_ns = nanoseconds(now - self.epoch);
        let old = usize::from(self.state.load(Ordering::Relaxed));
        let since = self.since_ns.load(Ordering::Relaxed);
        if let Some(spent) = self.in_state_ns.get(old) {
            add(spent, now_ns.saturating_sub(since));
        }
        self.state.store(state as u8, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        if state == WorkerState::Asleep {
            add(&self.sleeps, 1);
        }
        now
    }

    /// Ends a sleep. Returns the time at which the sleep ended.
    pub fn woken(&self, by_descriptor: bool) -> Instant {
        add(&self.wakes, u64::from(by_descriptor));
        self.enter(WorkerState::Spinning)
    }

    #[inline(always)]
    pub fn begin_pass(&self) -> Pass {
        let timed = self.passes().is_multiple_of(PASSES_PER_TIMED);
        Pass { timed: timed.then(|| (Instant::now(), self.frames.load(Ordering::Relaxed))) }
    }

    #[inline(always)]
    pub fn end_pass(&self, pass: Pass, moved: bool) {
        add(&self.passes[usize::from(moved)], 1);
        if let Some((begin, frames_before)) = pass.timed
            && moved
        {
            add(&self.timed_ns, nanoseconds(begin.elapsed()));
            add(&self.timed_frames, self.frames.load(Ordering::Relaxed) - frames_before);
        }
    }

    #[inline(always)]
    pub fn burst(&self, frames: u64, outcome: &Outcome) {
        add(&self.frames, frames);
        add(&self.flooded, outcome.flooded);
        add(&self.flood_copies, outcome.flood_copies);
        add(&self.copies, outcome.copies);
    }

    /// The counts so far, including the present state. If the state changes during the call, the present state may
    /// be missing.
    pub fn counts(&self) -> WorkerCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut spent = [0, 1, 2].map(|state: usize| read(&self.in_state_ns[state]));
        let since = read(&self.since_ns);
        if let Some(spent) = spent.get_mut(usize::from(self.state.load(Ordering::Relaxed))) {
            *spent += nanoseconds(self.epoch.elapsed()).saturating_sub(since);
        }
        let [busy_ns, spinning_ns, asleep_ns] = spent;
        WorkerCounts {
            passes_moved: read(&self.passes[1]),
            passes_empty: read(&self.passes[0]),
            frames: read(&self.frames),
            flooded: read(&self.flooded),
            flood_copies: read(&self.flood_copies),
            copies: read(&self.copies),
            sleeps: read(&self.sleeps),
            wakes: read(&self.wakes),
            busy_ns,
            spinning_ns,
            asleep_ns,
            timed_ns: read(&self.timed_ns),
            timed_frames: read(&self.timed_frames),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}
