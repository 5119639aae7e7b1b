//! Nanoseconds since the trial began.
use std::time::Instant;

/// A monotonic clock with its own zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock whose zero is now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// Nanoseconds since zero.
    #[inline(always)]
    pub fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}
