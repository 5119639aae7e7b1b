//! Ends programs of the guest that do not end by themselves: a signal ends KVM_RUN.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use measure::Failure;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

/// Ends the programs that run in one machine.
#[derive(Default)]
pub struct Stop {
    is_wanted: AtomicBool,
    /// Threads that run the guest.
    threads: Mutex<Vec<libc::pid_t>>,
}

/// A thread that can be stopped while this value exists.
pub struct Stoppable<'a> {
    stop: &'a Stop,
    thread: libc::pid_t,
}

/// Does nothing: the signal's arrival alone ends a system call.
extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

impl Stop {
    /// Whether programs must end.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Ends the running programs. A thread that is just about to enter the guest may still enter it, so this is
    /// called repeatedly until all have ended.
    ///
    /// # Errors
    /// The system refuses the signal's handler.
    pub fn end(&self) -> Result<(), Failure> {
        register_signal_handler(SIGRTMIN(), nothing).map_err(|error| {
            Failure::new(
                "handling a signal that stops a guest",
                error,
                "let rt_sigaction through the sandbox that this runs in",
            )
        })?;
        self.is_wanted.store(true, Ordering::Relaxed);
        for thread in self.lock().iter() {
            // SAFETY: no memory is passed. The list's lock is held, so the thread has not ended, and it is one of this
            // process; the signal has a handler.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, SIGRTMIN()) };
        }
        Ok(())
    }

    /// Registers the calling thread as running the guest, until the result is dropped.
    pub(super) fn stoppable(&self) -> Stoppable<'_> {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.lock().push(thread);
        Stoppable { stop: self, thread }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<libc::pid_t>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stoppable<'_> {
    fn drop(&mut self) {
        self.stop.lock().retain(|thread| *thread != self.thread);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
    use vmm_sys_util::eventfd::EventFd;

    use super::*;

    /// Waits until the eventfd can be read. Unlike a read, this is not begun again after a signal.
    fn wait_readable(event: &EventFd) -> std::io::Result<()> {
        let epoll = Epoll::new()?;
        epoll.ctl(ControlOperation::Add, event.as_raw_fd(), EpollEvent::new(EventSet::IN, 0))?;
        epoll.wait(-1, &mut [EpollEvent::default()]).map(drop)
    }

    #[test]
    fn a_thread_that_waits_is_ended_and_no_other() {
        let (stop, event) = (Stop::default(), EventFd::new(0).unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let _stoppable = stop.stoppable();
                wait_readable(&event).unwrap_err().raw_os_error()
            });
            let other = scope.spawn(|| event.read().unwrap());
            assert!(!stop.is_wanted());
            while !waiting.is_finished() {
                stop.end().unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(waiting.join().unwrap(), Some(libc::EINTR));
            assert!(stop.is_wanted() && stop.lock().is_empty());
            event.write(1).unwrap();
            assert_eq!(other.join().unwrap(), 1);
        });
    }
}
