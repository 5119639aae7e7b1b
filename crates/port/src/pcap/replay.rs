//! A capture as a source.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{FrameBatch, OwnSgBuilder, QueueCounters, QueueError, Source};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::header::{FRONT_BYTES, LAYOUT};
use super::load::Capture;
use super::options::{Rounds, Timing};

/// The most frames of one batch.
const BURST: usize = 64;

/// Sends the frames of a capture from its memory, repeatedly if asked.
#[derive(Debug)]
pub(super) struct Replay {
    capture: Arc<Capture>,
    builder: OwnSgBuilder,
    /// The number of rounds that have not ended; `None` for no limit.
    rounds_left: Option<u64>,
    next: usize,
    clock: Option<Clock>,
    batch: FrameBatch,
    needs_release: bool,
    counters: Arc<QueueCounters>,
}

/// When the next frame is due, with the capture's own timing.
#[derive(Debug)]
struct Clock {
    timer: OwnedFd,
    /// When the first frame of this round was sent; set by the first poll.
    began: Option<Instant>,
}

impl Clock {
    /// Sets the timer; no time switches it off.
    fn expire_after(&self, wait: Duration) -> io::Result<()> {
        let it_value = Timespec::try_from(wait).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl Replay {
    /// A source of the frames of a loaded capture.
    ///
    /// # Errors
    /// The capture's own timing is wanted, and `timerfd_create` is refused, for example at the open-files limit.
    pub fn new(
        capture: Arc<Capture>,
        rounds: Rounds,
        timing: Timing,
        counters: Arc<QueueCounters>,
    ) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let clock = match timing {
            Timing::Fast => None,
            Timing::Original => {
                Some(Clock { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, began: None })
            }
        };
        let rounds_left = match rounds {
            // A capture without frames is over at once.
            _ if capture.frames.is_empty() => Some(0),
            Rounds::Times(times) => Some(times),
            Rounds::Forever => None,
        };
        Ok(Replay {
            builder: capture.memory.sg_builder(),
            capture,
            rounds_left,
            next: 0,
            clock,
            batch: FrameBatch::of_memory(BURST),
            needs_release: false,
            counters,
        })
    }

    fn over(&self) -> bool {
        self.rounds_left == Some(0)
    }

    /// How long until the next frame is due; nothing if it is due now.
    fn wait(&mut self) -> Duration {
        let Some(clock) = &mut self.clock else { return Duration::ZERO };
        let now = Instant::now();
        let due = self.capture.frames.get(self.next).map_or(Duration::ZERO, |frame| frame.at);
        due.saturating_sub(now.duration_since(*clock.began.get_or_insert(now)))
    }

    fn step(&mut self) {
        self.next += 1;
        if self.next < self.capture.frames.len() {
            return;
        }
        self.next = 0;
        self.rounds_left = self.rounds_left.map(|left| left - 1);
        // The next round begins where this one ends in time, not when it was looked at.
        if let (Some(clock), Some(last)) = (&mut self.clock, self.capture.frames.last()) {
            clock.began = clock.began.map(|began| began.checked_add(last.at).unwrap_or_else(Instant::now));
        }
    }
}

impl Source for Replay {
    fn rx_burst(&mut self, max: usize) -> Result<&FrameBatch, QueueError> {
        debug_assert!(!self.needs_release, "the batch before is released first");
        for _ in 0..max.min(BURST) {
            if self.over() || !self.wait().is_zero() {
                break;
            }
            let Some(frame) = self.capture.frames.get(self.next).copied() else { break };
            let Some(arena) = self.batch.arena_mut() else { break };
            let first = arena.len();
            self.builder.push(arena, 0, FRONT_BYTES as u32);
            self.builder.push(arena, frame.offset, frame.bytes);
            match self.batch.push(first, LAYOUT) {
                Ok(()) => self.counters.passed(1, u64::from(frame.bytes)),
                Err(reason) => self.counters.dropped(reason, 1),
            }
            self.needs_release = true;
            self.step();
        }
        Ok(&self.batch)
    }

    fn needs_release(&self) -> bool {
        self.needs_release
    }

    fn release(&mut self) {
        self.batch.clear();
        self.needs_release = false;
    }

    fn sleep(&mut self) -> bool {
        if self.over() {
            return false;
        }
        let wait = self.wait();
        let Some(clock) = &self.clock else { return true };
        // A timer that cannot be set must not end in a frame that is never sent.
        wait.is_zero() || clock.expire_after(wait).is_err()
    }

    fn wake(&mut self) {
        if let Some(clock) = &self.clock {
            let _ = clock.expire_after(Duration::ZERO);
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.clock.as_ref().map(|clock| clock.timer.as_fd())
    }

    fn counters(&self) -> &Arc<QueueCounters> {
        &self.counters
    }
}
