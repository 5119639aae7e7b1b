//! CLOCK_MONOTONIC in nanoseconds.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since boot or thereabouts.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux always has CLOCK_MONOTONIC");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
