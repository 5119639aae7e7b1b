//! Signals an eventfd without ever waiting for its other holders.
use std::cell::RefCell;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::aio::Aio;
use super::timed::Timed;

/// A thread's means of signalling, made at its first signal.
#[derive(Debug, Default)]
struct Signaller {
    aio: Option<Result<Aio, Errno>>,
    timed: Option<Timed>,
}

thread_local! {
    static SIGNALLER: RefCell<Signaller> = const { RefCell::new(Signaller { aio: None, timed: None }) };
}

/// Adds 1 to the counter. Returns false if the write would have waited.
#[inline]
pub(super) fn signal(fd: BorrowedFd<'_>) -> bool {
    // A thread that is ending needs not signal.
    SIGNALLER.try_with(|signaller| signaller.borrow_mut().signal(fd)).unwrap_or(true)
}

/// Whether the descriptor is an eventfd, as far as AIO shows.
pub(super) fn is_event_fd(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let ask = |signaller: &RefCell<Signaller>| match signaller.borrow_mut().aio() {
        Ok(aio) => aio.is_event_fd(fd),
        Err(errno) => Err(*errno),
    };
    SIGNALLER.try_with(ask).unwrap_or(Err(Errno::NOSYS))
}

impl Signaller {
    fn aio(&mut self) -> &mut Result<Aio, Errno> {
        self.aio.get_or_insert_with(Aio::new)
    }

    #[inline]
    fn signal(&mut self, fd: BorrowedFd<'_>) -> bool {
        if let Ok(aio) = self.aio()
            && aio.signal(fd).is_ok()
        {
            return true;
        }
        self.signal_timed(fd)
    }

    #[cold]
    fn signal_timed(&mut self, fd: BorrowedFd<'_>) -> bool {
        if self.timed.is_none() {
            self.timed = Timed::new().ok();
        }
        // Without a timer nothing is written: better untold than stuck.
        self.timed.as_mut().is_none_or(|timed| timed.signal(fd))
    }
}
