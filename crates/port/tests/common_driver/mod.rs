//! What the tests of a driver's port share.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod board;
pub mod frames;
pub mod testpmd;

use std::time::{Duration, Instant};

/// Long enough for a busy machine; only a failing test waits for it.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
