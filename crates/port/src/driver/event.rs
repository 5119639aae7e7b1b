//! An eventfd: a kick or a call.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// Two processes that wake each other by it.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    pub fn new() -> io::Result<Self> {
        Ok(Event(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// A descriptor for the peer.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Makes it readable. A counter that is full is readable already, so nothing is lost.
    #[inline]
    pub fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_reaches_the_other_descriptor_and_is_cleared() {
        let ours = Event::new().unwrap();
        let theirs = Event(ours.share().unwrap());
        theirs.signal();
        theirs.signal();
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&ours, &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 2);
        theirs.signal();
        ours.clear();
        assert_eq!(rustix::io::read(&theirs, &mut count), Err(rustix::io::Errno::AGAIN));
    }
}
