//! A guest's side of a `vhost-user:` port: front-end session, memory and driver halves, all in one thread
//! with the port.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod guest;

use std::time::{Duration, Instant};

/// Long enough for a busy machine; only a failing test waits for it.
pub const SOON: Duration = Duration::from_secs(30);

pub fn deadline() -> Instant {
    Instant::now() + SOON
}

/// A frame: addresses, type, and a payload that names it.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0x52, 0x54, 0, 0, 0, 1, 0x52, 0x54, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend_from_slice(&number.to_be_bytes());
    while frame.len() < len {
        frame.push((frame.len() as u32).wrapping_mul(31).wrapping_add(number) as u8);
    }
    frame.truncate(len.max(14));
    frame
}
