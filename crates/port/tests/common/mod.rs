//! A guest's side of a `vhost-user:` port: front-end session, memory and driver halves, all in one thread
//! with the port.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod guest;

use std::time::{Duration, Instant};

pub use port::testing::guest_memory::frame;

/// Long enough for a busy machine; only a failing test waits for it.
pub const SOON: Duration = Duration::from_secs(30);

pub fn deadline() -> Instant {
    Instant::now() + SOON
}
