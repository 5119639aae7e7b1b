//! The epoll set of whoever runs the switch.
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;

/// Watches a descriptor in it.
pub fn watch(epoll: &OwnedFd, fd: impl AsFd, key: u64, flags: epoll::EventFlags) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(key), flags)?)
}
