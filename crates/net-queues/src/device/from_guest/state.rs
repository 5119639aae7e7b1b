//! The state of a transmitq.

/// Whether frames are popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// The ring was neither enabled nor disabled yet. A front-end that continues with a restarted back-end may start
    /// its rings first and enable them afterwards. Their content must not be lost in between.
    NotEnabledYet,
    /// The ring is malformed and was reported.
    Stopped,
}
