//! Events of ports, for programs that follow them.

/// Something that happened to a port while the switch runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// The port was added and has started.
    Added,
    /// The port was ended and removed.
    Removed,
    /// The first queue of the port runs.
    Connected,
    /// No queue of the port runs any more.
    Disconnected,
    /// The port has ended by an error. It moves no frame until it is removed and added again.
    Stopped,
}
