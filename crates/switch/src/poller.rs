//! Waiting for descriptors, and waking the thread that waits.
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use port::Interest;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

/// A set of descriptors, level-triggered.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// `epoll_create` is refused, for example at the open-files limit.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(64) })
    }

    /// Adds a descriptor to the set. [`Poller::wait`] returns `key` when it is ready.
    ///
    /// # Errors
    /// `epoll_ctl` refuses the descriptor: it is in the set already, cannot be polled, or a limit of watches
    /// (`/proc/sys/fs/epoll`) or memory is reached.
    pub fn add(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    /// Stops watching a descriptor of the set until it is resumed. An error or hang-up of it is still returned
    /// once.
    ///
    /// # Errors
    /// `epoll_ctl` refuses: the descriptor is not in the set.
    pub fn pause(&self, fd: impl AsFd, key: u64) -> io::Result<()> {
        let none = epoll::EventFlags::ONESHOT;
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(key), none)?)
    }

    /// Watches a descriptor of the set again, or with another interest or key.
    ///
    /// # Errors
    /// `epoll_ctl` refuses: the descriptor is not in the set.
    pub fn resume(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    /// Removes a descriptor from the set.
    ///
    /// # Errors
    /// `epoll_ctl` refuses: the descriptor is not in the set.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until a descriptor is ready, at most for `timeout`, and returns the keys of those that are. Without a
    /// timeout the wait has no limit.
    ///
    /// # Errors
    /// `epoll_wait` is refused. A signal is no error: the result is empty.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = u64> + '_> {
        // A time that the system cannot express means no limit.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => self.events.clear(),
            Err(error) => return Err(error.into()),
        }
        Ok(self.events.iter().map(|event| event.data.u64()))
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    match interest {
        Interest::Readable => epoll::EventFlags::IN,
        Interest::ReadableOrWritable => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        Interest::Writable => epoll::EventFlags::OUT,
    }
}

/// An eventfd that becomes readable when it is set.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    /// A waker that is not set.
    ///
    /// # Errors
    /// `eventfd` is refused, for example at the open-files limit.
    pub fn new() -> io::Result<Self> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn wake(&self) {
        // Fails only if it was set 2^64 - 2 times without being cleared.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears the waker.
    pub fn clear(&self) {
        // Fails if the waker is not set.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
