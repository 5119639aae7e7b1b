use std::io;

use rustix::io::Errno;
use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The present time of CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `instant_ns` of CLOCK_MONOTONIC. Returns at once if that has passed.
///
/// # Errors
/// The kernel refuses the call.
pub fn sleep_until_ns(instant_ns: u64) -> io::Result<()> {
    let (seconds, ns) = (instant_ns / 1_000_000_000, instant_ns % 1_000_000_000);
    let instant = Timespec { tv_sec: seconds as i64, tv_nsec: ns as _ };
    loop {
        match clock_nanosleep_absolute(SleepClock::Monotonic, &instant) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
