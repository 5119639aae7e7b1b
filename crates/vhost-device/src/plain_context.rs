//! A context for a program that runs one or a few devices on one thread.
use std::fmt::Display;
use std::io;
use std::time::Duration;

use vhost_user::SharedFd;

use crate::watches::Watches;
use crate::{Context, Interest, Token};

/// A context that watches by `poll(2)`, and passes each log line to a function.
pub struct PlainContext<L> {
    watches: Watches,
    log: L,
}

impl<L: FnMut(&dyn Display)> PlainContext<L> {
    /// A context that watches nothing yet.
    pub fn new(log: L) -> Self {
        PlainContext { watches: Watches::default(), log }
    }

    /// Waits until a descriptor is ready or a timer expires, at most for `timeout`. The caller must call the device
    /// with each token. A signal ends the wait.
    ///
    /// # Errors
    /// The causes of [`Watches::wait`].
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Vec<Token>> {
        let ready = Watches::wait([&mut self.watches], timeout)?;
        Ok(ready.into_iter().map(|(_, token)| token).collect())
    }

    /// The watched descriptors and timers, for calling [`Watches::wait`] over several contexts.
    pub fn watches(&mut self) -> &mut Watches {
        &mut self.watches
    }
}

impl<L: FnMut(&dyn Display)> Context for PlainContext<L> {
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> io::Result<()> {
        self.watches.watch(token, fd, interest)
    }

    fn unwatch(&mut self, token: Token) {
        self.watches.unwatch(token);
    }

    fn after(&mut self, token: Token, time: Duration) {
        self.watches.after(token, time);
    }

    fn log(&mut self, message: &dyn Display) {
        (self.log)(message);
    }
}
