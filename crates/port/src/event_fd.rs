//! Eventfds: kicks and calls, those that a peer has passed and those made for it.
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, ReadWriteFlags, preadv2, write};

/// Bits of a file's mode that name its type. Anonymous inodes, eventfds among them, have none set.
const TYPE_BITS: u32 = 0o170_000;

/// Why a descriptor cannot carry notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnEventFd {
    /// A pipe, socket or file: a write to it could wait for its other end.
    #[error("the descriptor is no eventfd; pass one made by eventfd(2)")]
    OtherKind,
    /// The system would not say, or would not make it non-blocking.
    #[error("the descriptor cannot be used: {0}; pass one made by eventfd(2)")]
    System(#[from] Errno),
}

/// An eventfd that is shared with a peer and never waited on.
#[derive(Clone, Debug)]
pub struct EventFd(Arc<OwnedFd>);

impl EventFd {
    /// A new one.
    pub fn new() -> std::io::Result<Self> {
        Ok(EventFd(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// A descriptor for the peer.
    pub fn share(&self) -> std::io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Takes a peer's descriptor. It is made non-blocking, for the peer could fill its counter and let the
    /// next write wait for ever.
    pub fn adopt(fd: impl Into<Arc<OwnedFd>>) -> Result<Self, NotAnEventFd> {
        let fd = fd.into();
        if fstat(&*fd)?.st_mode & TYPE_BITS != 0 {
            return Err(NotAnEventFd::OtherKind);
        }
        fcntl_setfl(&*fd, fcntl_getfl(&*fd)? | OFlags::NONBLOCK)?;
        Ok(EventFd(fd))
    }

    /// Notifies. A counter that is full already has notified.
    #[inline]
    pub fn notify(&self) {
        // Whatever the answer, there is nobody to tell: a peer that broke its own eventfd goes unnotified.
        let _ = write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Forgets notifications that have come; does not wait for any, whatever mode the peer has set.
    #[inline]
    pub fn drain(&self) {
        let mut count = [0; 8];
        // u64::MAX is -1, "where the file stands", as a stream needs it.
        let _ = preadv2(&*self.0, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(fd: &EventFd) -> bool {
        poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn a_blocking_eventfd_never_makes_anybody_wait() {
        let fd = EventFd::adopt(eventfd(0, EventfdFlags::CLOEXEC).unwrap()).unwrap();
        fd.notify();
        assert!(is_readable(&fd));
        fd.drain();
        assert!(!is_readable(&fd));
        fd.drain();
        write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        fd.notify();
        assert!(is_readable(&fd));
        // The peer may turn the mode back; reading still does not wait.
        fd.drain();
        let flags = fcntl_getfl(&fd).unwrap();
        fcntl_setfl(&fd, flags - OFlags::NONBLOCK).unwrap();
        fd.drain();
    }

    #[test]
    fn a_notification_reaches_the_shared_descriptor() {
        let ours = EventFd::new().unwrap();
        let theirs = EventFd::adopt(ours.share().unwrap()).unwrap();
        theirs.notify();
        theirs.notify();
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&ours, &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 2);
        theirs.notify();
        ours.drain();
        assert_eq!(rustix::io::read(&theirs, &mut count), Err(Errno::AGAIN));
    }

    #[test]
    fn what_is_no_eventfd_is_refused() {
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(EventFd::adopt(OwnedFd::from(end)).unwrap_err(), NotAnEventFd::OtherKind);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(EventFd::adopt(OwnedFd::from(file)).unwrap_err(), NotAnEventFd::OtherKind);
    }
}
