//! How long a device may use the control thread in one call.
use std::time::{Duration, Instant};

/// The longest time that one call of [`Backend::ready`](crate::Backend::ready) may use the control thread. A device
/// leaves further work for its next call. After a call that took this long the device must rest, so that others and
/// the operator get their turn.
pub const TURN: Duration = Duration::from_millis(1);

/// The remaining time of one call.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    since: Instant,
}

impl Turn {
    /// Begins now.
    pub fn begin() -> Self {
        Turn { since: Instant::now() }
    }

    /// Whether the time is used up, so that the remaining work is left for the next call.
    pub fn is_over(self) -> bool {
        self.since.elapsed() >= TURN
    }
}
