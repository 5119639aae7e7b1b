//! For where there is no AIO: a plain write that a timer breaks off if it waits.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::Once;
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use rustix::io::{Errno, write};

/// How long a write may wait. A peer gains it once for each eventfd.
const WRITE_TIMEOUT: Duration = Duration::from_millis(5);

/// Ignored unless somebody asks for it, and nobody does: no socket here is told of urgent data.
const BREAK_OFF: Signal = Signal::SIGURG;

/// A timer of this thread.
#[derive(Debug)]
pub(super) struct Timed(Timer);

extern "C" fn nothing(_: libc::c_int) {}

impl Timed {
    pub fn new() -> nix::Result<Self> {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            // Without SA_RESTART: the write is to end, not to begin again.
            let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
            // SAFETY: the handler does nothing, so it may run at any time.
            let _ = unsafe { sigaction(BREAK_OFF, &action) };
        });
        let notify = SigevNotify::SigevThreadId {
            signal: BREAK_OFF,
            thread_id: rustix::thread::gettid().as_raw_nonzero().get(),
            si_value: 0,
        };
        Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(notify)).map(Timed)
    }

    /// Adds 1 to the counter. False if that had to be broken off: the counter is full, and its owner has made it
    /// one that is waited for.
    pub fn signal(&mut self, fd: BorrowedFd<'_>) -> bool {
        // Again and again: the first could come before the write has begun.
        let timeout = TimeSpec::from_duration(WRITE_TIMEOUT);
        let limit = Expiration::IntervalDelayed(timeout, timeout);
        if self.0.set(limit, TimerSetTimeFlags::empty()).is_err() {
            return true;
        }
        let written = write(fd, &1u64.to_ne_bytes());
        let never = Expiration::OneShot(TimeSpec::new(0, 0));
        let _ = self.0.set(never, TimerSetTimeFlags::empty());
        written != Err(Errno::INTR)
    }
}
