//! Services of the program that runs a device.
use std::fmt::Display;
use std::io;
use std::time::Duration;

use vhost_user::SharedFd;

/// A device's name for something that it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u32);

/// The events that a device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read, or the end of the connection.
    Readable,
    /// Data to read, room to write, or the end of the connection.
    ReadableOrWritable,
    /// Room to write, or the end of the connection. The device waits in this way for a peer that does not read its
    /// messages, and reads nothing from the peer meanwhile.
    Writable,
}

/// Watches descriptors and timers for one device on the control thread. When a descriptor is ready or a timer
/// expires, the program calls [`Backend::ready`](crate::Backend::ready) with its token.
///
/// A program whose device needs more services, such as worker threads for queues, defines a trait above this one and
/// uses it as the device's [`Device::Context`](crate::Device::Context).
pub trait Context {
    /// Watches a descriptor (level-triggered). A later call for the same token replaces descriptor and interest. The
    /// descriptor stays open as long as it is watched.
    ///
    /// # Errors
    /// The system refuses to watch the descriptor: it cannot be polled, or a limit of watches or memory is reached.
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> io::Result<()>;

    /// Stops watching the descriptor of this token, if there is one.
    fn unwatch(&mut self, token: Token);

    /// Calls the device with this token once, after this time. A later call for the same token replaces it.
    fn after(&mut self, token: Token, time: Duration);

    /// Logs an event. If it is an error, `message` says what was tried and what the user can do.
    fn log(&mut self, message: &dyn Display);
}
