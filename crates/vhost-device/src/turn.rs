//! How long a device may use the control thread before others have their turn.
use std::time::{Duration, Instant};

/// How long one call of [`Backend::ready`](crate::Backend::ready) may use the control thread. A device that has more to do
/// leaves it for its next call. After a call that took this long the device is to rest, so that others and the
/// operator have their turn.
pub const TURN: Duration = Duration::from_millis(1);

/// The time that is left of one call.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    since: Instant,
}

impl Turn {
    /// Begins now.
    pub fn begin() -> Self {
        Turn { since: Instant::now() }
    }

    /// Whether the rest of the work is left for the next call.
    pub fn is_over(self) -> bool {
        self.since.elapsed() >= TURN
    }
}
