//! What the tests of a driver's port share.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod attached;
pub mod backend;
pub mod context;
pub mod frames;
pub mod passing;

use std::time::{Duration, Instant};

/// Long enough for a busy machine; only a failing test waits for it.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
