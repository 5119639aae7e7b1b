//! Events of ports, for programs that follow them.

/// Something that happened to a port while the switch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// It was added and has started.
    Added,
    /// It was ended and forgotten.
    Removed,
    /// The first of its queues runs.
    Connected,
    /// None of its queues runs any more.
    Disconnected,
    /// It has ended by an error, and moves no frame until it is removed and added again.
    Stopped,
}
