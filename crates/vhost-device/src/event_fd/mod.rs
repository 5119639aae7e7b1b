//! Eventfds: kicks and calls that a peer has passed or that were made for a peer.
//!
//! A peer shares the *open file* of each eventfd and can change `O_NONBLOCK` and the counter at any time, so a plain
//! `write` could be made to wait forever. See `docs/decisions/notifications-that-never-wait.md`.
//!
//! A driver that has no eventfd is called by a function instead ([`EventFd::calling`]).
mod aio;
mod signal;
mod timed;

use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use vhost_user::SharedFd;

/// Why a descriptor cannot carry notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnEventFd {
    /// The descriptor is a pipe, socket, file, timer, …: a write to it could wait for its other end, or have another
    /// meaning.
    #[error("the descriptor is no eventfd; pass one made by eventfd(2)")]
    OtherKind,
    /// The system did not report its kind, or did not make it non-blocking.
    #[error("the descriptor cannot be used: {0}; pass one made by eventfd(2)")]
    System(#[from] Errno),
}

/// An eventfd that is shared with a peer and never waited on.
#[derive(Clone, Debug)]
pub struct EventFd(Arc<Shared>);

struct Shared {
    fd: SharedFd,
    /// Whether nothing is written to the eventfd: the peer has filled the counter and made the eventfd blocking, so
    /// that a write would wait, or the driver is called by a function.
    unwritten: AtomicBool,
    /// The function that calls the driver in place of the eventfd.
    call: Option<CallFn>,
}

/// Calls a driver. Must not wait.
type CallFn = Box<dyn Fn() + Send + Sync>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.fd)
    }
}

impl EventFd {
    /// A new eventfd, with the counter at 0.
    ///
    /// # Errors
    /// `eventfd` is refused, for example at the open-files limit.
    pub fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self::of(fd.into()))
    }

    fn of(fd: SharedFd) -> Self {
        // Opened now, not when a worker first notifies. Without it there is another way.
        let _ = aio::file();
        EventFd(Arc::new(Shared { fd, unwritten: AtomicBool::new(false), call: None }))
    }

    /// Notifies by a function that must not wait. `fd` is the file that the function uses.
    pub fn calling(fd: SharedFd, call: impl Fn() + Send + Sync + 'static) -> Self {
        EventFd(Arc::new(Shared { fd, unwritten: AtomicBool::new(true), call: Some(Box::new(call)) }))
    }

    /// A duplicate of the descriptor, for the peer.
    ///
    /// # Errors
    /// `dup` is refused: the open-files limit is reached.
    pub fn share(&self) -> std::io::Result<OwnedFd> {
        self.0.fd.as_fd().try_clone_to_owned()
    }

    /// The descriptor, which others may hold too.
    pub fn shared(&self) -> &SharedFd {
        &self.0.fd
    }

    /// Accepts an eventfd of a peer.
    ///
    /// # Errors
    /// The descriptor is no eventfd, its kind cannot be read, or `fcntl` cannot make it non-blocking.
    pub fn adopt(fd: impl Into<SharedFd>) -> Result<Self, NotAnEventFd> {
        let fd = fd.into();
        if !is_event_fd(fd.as_fd())? {
            return Err(NotAnEventFd::OtherKind);
        }
        // The mode lasts as long as the peer leaves it unchanged; no code relies on it.
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self::of(fd))
    }

    /// Notifies without waiting, whatever the peer has done to the eventfd. A full counter counts as notified.
    #[inline]
    pub fn notify(&self) {
        if self.0.unwritten.load(Ordering::Relaxed) {
            self.call();
        } else if !signal::signal(self.as_fd()) {
            self.0.unwritten.store(true, Ordering::Relaxed);
        }
    }

    #[cold]
    fn call(&self) {
        if let Some(call) = &self.0.call {
            call();
        }
    }

    /// Clears the counter and returns it. Never waits, whatever mode the peer has set.
    #[inline]
    pub fn drain(&self) -> u64 {
        let mut count = [0; 8];
        // u64::MAX is -1, "where the file stands", as a stream needs it.
        let _ = preadv2(&self.0.fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
        u64::from_ne_bytes(count)
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// Whether a descriptor is an eventfd. Makes no call that a file system has to answer: `fstat` of a file on FUSE
/// could be made to wait.
pub(crate) fn is_event_fd(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    match std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())) {
        // The kernel's own name, which no file's path can be: paths begin with a slash.
        Ok(name) => Ok(name.as_os_str() == "anon_inode:[eventfd]"),
        // No /proc here.
        Err(_) => signal::is_event_fd(fd),
    }
}

#[cfg(test)]
mod tests;
