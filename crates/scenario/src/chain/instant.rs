//! The clock that all members on one machine share.

use std::io;

use rustix::io::Errno;
use rustix::thread::{ClockId, Timespec, clock_nanosleep_absolute};
use rustix::time::clock_gettime;

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until shortly before an instant, and spins up to it.
///
/// # Errors
/// Sleeping on the clock is refused.
pub fn wait_until(due_ns: u64, spin_ns: u64) -> io::Result<()> {
    let wake_ns = due_ns.saturating_sub(spin_ns);
    let wake = Timespec { tv_sec: (wake_ns / 1_000_000_000) as i64, tv_nsec: (wake_ns % 1_000_000_000) as _ };
    while let Err(error) = clock_nanosleep_absolute(ClockId::Monotonic, &wake) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    while now_ns() < due_ns {
        std::hint::spin_loop();
    }
    Ok(())
}
