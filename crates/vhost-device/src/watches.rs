//! The descriptors and timers that a few devices watch.
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vhost_user::SharedFd;

use crate::{Interest, Token};

/// The descriptors and timers of one [`Context`](crate::Context), watched by `poll(2)`.
#[derive(Default)]
pub struct Watches {
    /// The descriptors are held open, so that a device that forgets to unwatch one can be noticed by its open
    /// descriptors.
    fds: BTreeMap<Token, (SharedFd, PollFlags)>,
    times: BTreeMap<Token, Instant>,
}

impl Watches {
    /// As [`Context::watch`](crate::Context::watch).
    ///
    /// # Errors
    /// Never: a descriptor that cannot be polled is reported by [`Watches::wait`].
    pub fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Readable => PollFlags::IN,
            Interest::ReadableOrWritable => PollFlags::IN | PollFlags::OUT,
            Interest::Writable => PollFlags::OUT,
        };
        self.fds.insert(token, (fd.clone(), events));
        Ok(())
    }

    /// As [`Context::unwatch`](crate::Context::unwatch).
    pub fn unwatch(&mut self, token: Token) {
        self.fds.remove(&token);
    }

    /// As [`Context::after`](crate::Context::after).
    pub fn after(&mut self, token: Token, time: Duration) {
        self.times.insert(token, Instant::now() + time);
    }

    /// Number of descriptors that are watched.
    pub fn descriptors(&self) -> usize {
        self.fds.len()
    }

    /// Waits until a descriptor is ready or a timer expires for one of the devices, at most for `timeout`. Returns
    /// the tokens, each with the device's index in `devices`. A timer that has expired is removed. A signal ends the
    /// wait.
    ///
    /// # Errors
    /// `poll` is refused: out of memory, or more descriptors than the process may open.
    pub fn wait<'a>(
        ports: impl IntoIterator<Item = &'a mut Watches>,
        timeout: Duration,
    ) -> io::Result<Vec<(usize, Token)>> {
        let mut ports: Vec<&mut Watches> = ports.into_iter().collect();
        let next = ports.iter().flat_map(|port| port.times.values()).min();
        let timeout = next.map_or(timeout, |at| timeout.min(at.saturating_duration_since(Instant::now())));
        let watched = ports.iter().enumerate().flat_map(|(number, port)| {
            port.fds.iter().map(move |(token, watched)| ((number, *token), watched))
        });
        let (names, mut fds): (Vec<_>, Vec<_>) =
            watched.map(|(name, (fd, events))| (name, PollFd::new(fd, *events))).unzip();
        match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = names.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        let mut ready: Vec<_> = ready.map(|(name, _)| name).collect();
        let now = Instant::now();
        for (number, port) in ports.iter_mut().enumerate() {
            let due = port.times.extract_if(.., |_, at| *at <= now);
            ready.extend(due.map(|(token, _)| (number, token)));
        }
        Ok(ready)
    }
}
