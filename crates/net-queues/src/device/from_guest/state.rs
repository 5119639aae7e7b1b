//! Whether a transmitq is served.

/// Whether frames are popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// Nothing was said of it. A front-end that goes on with a restarted back-end may start its rings first and then
    /// enable them: what they hold must not be lost in between.
    NotEnabledYet,
    /// The ring is malformed and was reported.
    Stopped,
}
