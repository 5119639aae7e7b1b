//! What comes of a case.

/// What a case did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Messages sent.
    pub messages: u64,
    /// States of a ring, each followed by a kick.
    pub ring_states: u64,
    /// Whether the back-end closed the connection.
    pub closed: bool,
}
