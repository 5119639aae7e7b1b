//! A plain write that a timer interrupts if it waits. Used on systems without AIO.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::Once;
use std::time::Duration;
use std::{io, mem};

use rustix::io::{Errno, write};

/// How long a write may wait. A peer gains it once for each eventfd.
const WRITE_TIMEOUT: Duration = Duration::from_millis(5);

/// SIGURG is ignored by default and not used otherwise: no socket here signals urgent data.
const BREAK_OFF: libc::c_int = libc::SIGURG;

/// A timer of the calling thread. `rustix` has no calls for POSIX timers and signal handlers.
#[derive(Debug)]
pub(super) struct Timed(libc::timer_t);

extern "C" fn nothing(_: libc::c_int) {}

impl Timed {
    /// A timer that interrupts a write of the calling thread.
    ///
    /// # Errors
    /// `timer_create` is refused: this user's limit of pending signals (`ulimit -i`) is reached.
    pub fn new() -> io::Result<Self> {
        static HANDLED: Once = Once::new();
        HANDLED.call_once(|| {
            let handler: extern "C" fn(libc::c_int) = nothing;
            // Without SA_RESTART: the write is to end, not to begin again.
            // SAFETY: all zeros is a valid `sigaction`: integers, and an empty set of signals.
            let mut action: libc::sigaction = unsafe { mem::zeroed() };
            action.sa_sigaction = handler as usize;
            // SAFETY: the handler does nothing, so it may run at any time; the call only reads `action`.
            unsafe { libc::sigaction(BREAK_OFF, &raw const action, null_mut()) };
        });
        // SAFETY: all zeros is a valid `sigevent`: integers and a pointer that is not followed.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = BREAK_OFF;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = null_mut();
        // SAFETY: the call reads the one structure and writes the timer's number; both live through it.
        match unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } {
            0 => Ok(Timed(timer)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Adds 1 to the counter. Returns false if the write was interrupted, because the counter is full and its owner
    /// has made it blocking.
    pub fn signal(&mut self, fd: BorrowedFd<'_>) -> bool {
        // The timer repeats, because its first signal could come before the write has begun.
        if !self.expire_each(WRITE_TIMEOUT) {
            return true;
        }
        let written = write(fd, &1u64.to_ne_bytes());
        self.expire_each(Duration::ZERO);
        written != Err(Errno::INTR)
    }

    /// Sets the timer; no time switches it off. False if it cannot be set.
    fn expire_each(&mut self, time: Duration) -> bool {
        let each = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        let times = libc::itimerspec { it_interval: each, it_value: each };
        // SAFETY: the timer is this value's own; the call reads the one structure, which lives through it.
        unsafe { libc::timer_settime(self.0, 0, &raw const times, null_mut()) == 0 }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        // SAFETY: the timer is this value's own, and it is not used after this.
        unsafe { libc::timer_delete(self.0) };
    }
}
