//! What a device may ask of the program that runs it.
use std::fmt::Display;
use std::io;
use std::time::Duration;

use vhost_user::SharedFd;

/// A device's own name for something it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

/// What a device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read, or the end.
    Readable,
    /// Something to read, room to write, or the end.
    ReadableOrWritable,
    /// Room to write, or the end. A peer that does not read its messages is not read from either.
    Writable,
}

/// What watches descriptors and times for one device on the control thread. When something is ready or due, the program
/// calls [`Backend::ready`](crate::Backend::ready) with its token.
///
/// A program whose device has needs of its own, such as worker threads that queues go to, makes a trait with this one
/// above it and names that as the device's [`Device::Context`](crate::Device::Context).
pub trait Context {
    /// Watches a descriptor (level-triggered). A later call for the same token replaces descriptor and interest. The
    /// descriptor stays open for as long as it is watched.
    ///
    /// # Errors
    /// The system refuses to watch the descriptor: it cannot be polled, or a limit of watches or memory is reached.
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> io::Result<()>;

    /// Stops watching the descriptor of this token, if there is one.
    fn unwatch(&mut self, token: Token);

    /// Has the device called with this token once, after this time. A later call for the same token replaces it.
    fn after(&mut self, token: Token, time: Duration);

    /// Logs what happened, for people; `message` names what was tried and what to do if it is an error.
    fn log(&mut self, message: &dyn Display);
}
