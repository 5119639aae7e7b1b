//! How long a port may use the control thread before others have their turn.
use std::time::{Duration, Instant};

/// How long one call of [`Port::ready`](crate::Port::ready) may use the control thread. A port that has more to do
/// leaves it for its next call. After a call that took this long the port rests, so that other ports and the operator
/// have their turn.
pub const TURN: Duration = Duration::from_millis(1);

/// The time that is left of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    since: Instant,
}

impl Turn {
    pub fn begin() -> Self {
        Turn { since: Instant::now() }
    }

    /// Whether the rest of the work is left for the next call.
    pub fn is_over(self) -> bool {
        self.since.elapsed() >= TURN
    }
}
