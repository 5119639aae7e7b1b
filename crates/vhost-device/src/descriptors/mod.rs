//! Descriptors that a peer passes: which are accepted, and which thread closes them.
//!
//! `close` may wait for another program: a TCP socket lingers for unsent data, even if it lies in the queue of
//! another socket, and a file on FUSE asks its server. It may also take as long as a peer has prepared: an eventfd or
//! an epoll set is removed from all sets that contain it, and a file frees its pages. The control thread serves all
//! devices, so it must not close descriptors of a peer: [`SharedFd`] passes them to a closing thread. See
//! `docs/decisions/descriptors-that-close-slowly.md`.
mod kind;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use memory::DropQueue;
use vhost_user::SharedFd;
use vhost_user::socket::DescriptorFilter;

use crate::DeviceError;
use kind::Kind;

/// Threads of one device that may hang.
const MAX_THREADS: usize = 4;

/// How long a descriptor may wait for a thread.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Checks all descriptors that one device receives, over any connection.
#[derive(Debug)]
pub struct DescriptorGuard {
    /// Closes files, one after the other. Closing takes as long as freeing their pages, and never waits for a peer.
    files: Arc<DropQueue>,
    /// Closes all other descriptors.
    others: Arc<DropQueue>,
}

impl Default for DescriptorGuard {
    fn default() -> Self {
        DescriptorGuard {
            files: Arc::new(DropQueue::new("closer", 1)),
            others: Arc::new(DropQueue::new("closer", MAX_THREADS)),
        }
    }
}

impl DescriptorGuard {
    /// The queue that closes files. It must also unmap their mappings.
    pub fn files(&self) -> &Arc<DropQueue> {
        &self.files
    }

    /// Accepts a descriptor that another process has accepted before.
    pub fn keep(&self, fd: SharedFd) -> SharedFd {
        let queue = if kind::is_file(fd.as_fd()) { &self.files } else { &self.others };
        SharedFd::new(queue.defer(fd))
    }

    /// Checks that descriptors of the device called `device` are still closed. An error must end the device.
    ///
    /// # Errors
    /// All threads that close descriptors hang, and another descriptor has waited for longer than [`CLOSE_LIMIT`].
    pub fn check(&self, device: &str) -> Result<(), DeviceError> {
        if self.others.longest_wait().is_none_or(|wait| wait <= CLOSE_LIMIT) {
            return Ok(());
        }
        let why = format!(
            "{MAX_THREADS} of them do not close, another has waited for longer than {} s",
            CLOSE_LIMIT.as_secs()
        );
        let what = format!("close descriptors that were passed to {device}");
        Err(DeviceError::new(what, why, "find out who passes them, and start the switch again"))
    }
}

impl DescriptorFilter for DescriptorGuard {
    fn admit(&self, fd: OwnedFd, socket: BorrowedFd<'_>) -> Result<SharedFd, String> {
        match kind::of(fd.as_fd(), socket) {
            Kind::File => Ok(SharedFd::new(self.files.defer(fd))),
            Kind::Other => Ok(SharedFd::new(self.others.defer(fd))),
            Kind::Refused(kind) => {
                self.others.put(fd);
                Err(kind)
            }
        }
    }

    fn hold(&self, socket: OwnedFd) -> SharedFd {
        SharedFd::new(self.others.defer(socket))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::event_fd::EventFd;

    /// Keeps a thread busy that drops it.
    struct Waits(Receiver<()>);

    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn nothing_is_closed_by_the_thread_that_drops_it() {
        let guard = DescriptorGuard::default();
        let (ends, waits): (Vec<_>, Vec<_>) = (0..=MAX_THREADS).map(|_| channel()).unzip();
        for (number, until) in waits.into_iter().enumerate() {
            if number == 0 { &guard.files } else { &guard.others }.put(Waits(until));
        }
        while guard.files.longest_wait().or(guard.others.longest_wait()).is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_open = |number: i32| Path::new(&format!("/proc/self/fd/{number}")).exists();
        let (over, _peer) = UnixStream::pair().unwrap();
        let fds: [OwnedFd; 4] = [
            EventFd::new().unwrap().share().unwrap(),
            memory::sealed_memfd(c"test", 4096).unwrap().into(),
            UnixStream::pair().unwrap().0.into(),
            std::io::pipe().unwrap().0.into(),
        ];
        for fd in fds {
            let (number, name) = (fd.as_raw_fd(), format!("{fd:?}"));
            drop(guard.admit(fd, over.as_fd()).unwrap());
            assert!(is_open(number), "{name} was closed at once");
        }
        let socket = UnixStream::pair().unwrap().0;
        let number = socket.as_raw_fd();
        drop(guard.hold(socket.into()));
        assert!(is_open(number), "a connection was closed at once");
        drop(ends);
    }
}
