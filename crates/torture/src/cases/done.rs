//! What comes of a case.

/// What a case did. What belongs to a session that is right so far does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Messages sent.
    pub messages: u64,
    /// Of these the back-end has answered, and the one at which it closed the connection: what it has read for certain.
    pub messages_read: u64,
    /// States of a ring, each followed by a kick.
    pub ring_states: u64,
    /// Of these it has used buffers of, or has stopped the ring at.
    pub ring_states_seen: u64,
    /// Whether the back-end closed the connection.
    pub closed: bool,
}
