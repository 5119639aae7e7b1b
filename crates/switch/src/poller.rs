//! Waiting for descriptors, and waking whoever waits.
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
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(64) })
    }

    pub fn add(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    /// Looks no more at a descriptor of the set, until it is resumed. Its end is still seen once.
    pub fn pause(&self, fd: impl AsFd, key: u64) -> io::Result<()> {
        let none = epoll::EventFlags::ONESHOT;
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(key), none)?)
    }

    pub fn resume(&self, fd: impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(key), flags(interest))?)
    }

    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something is ready, at most this long; the keys of what is. None after a signal.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<impl Iterator<Item = u64> + '_> {
        // Time that the system cannot express is for ever.
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

/// An eventfd: becomes readable when it is rung.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub fn new() -> io::Result<Self> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn wake(&self) {
        // Fails only if it was rung 2^64 - 2 times unheard.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it silent.
    pub fn clear(&self) {
        // Fails if it is silent.
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
