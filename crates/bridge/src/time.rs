//! Times, as the tables count them and as OpenFlow tells them.

use std::time::Duration;

/// A time in milliseconds, as the tables count it.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago this was: seconds and nanoseconds, as OpenFlow tells it.
pub(crate) fn age(now: Duration, since: Duration) -> (u32, u32) {
    let age = now.saturating_sub(since);
    (u32::try_from(age.as_secs()).unwrap_or(u32::MAX), age.subsec_nanos())
}
