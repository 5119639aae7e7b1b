//! The result of a case.

/// Counts of what a case did. Correct messages at the start of a session are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Messages sent.
    pub messages: u64,
    /// Hostile messages that the back-end has certainly read: those that it has answered, and the one at which it
    /// closed the connection.
    pub messages_read: u64,
    /// States of a ring that were written, each followed by a kick.
    pub ring_states: u64,
    /// The number of these states in which the back-end has used buffers or stopped the ring.
    pub ring_states_seen: u64,
    /// Whether the back-end closed the connection.
    pub closed: bool,
    /// Whether the back-end wrote where it may not.
    pub spoiled: bool,
}
