//! Conversions of times between this crate, the flow tables and OpenFlow.

use std::time::Duration;

/// A time in ms, the unit of the flow tables.
pub(crate) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The time from `since` to `now` in OpenFlow's form: seconds, and nanoseconds of the last second.
pub(crate) fn age(now: Duration, since: Duration) -> (u32, u32) {
    let age = now.saturating_sub(since);
    (u32::try_from(age.as_secs()).unwrap_or(u32::MAX), age.subsec_nanos())
}
