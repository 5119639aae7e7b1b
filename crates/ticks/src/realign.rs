//! The ticks after which the clocks are aligned again during a run. The source answers for a while after each of
//! them.

/// Twice before a tick's slot is overwritten.
const EVERY: u64 = crate::page::SLOTS as u64 / 2;

/// Whether one of these ticks is among those after `seen`, up to `latest`.
pub fn is_between(seen: u64, latest: u64) -> bool {
    latest / EVERY > seen / EVERY
}

/// How long the source answers, ns.
pub fn window_ns(interval_ns: u64) -> u64 {
    interval_ns / 4
}
