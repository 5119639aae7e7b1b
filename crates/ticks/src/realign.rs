//! When the clocks are aligned again while ticks pass: behind certain ticks the source answers for a while.

/// Twice before a tick's slot is overwritten.
const EVERY: u64 = crate::page::SLOTS as u64 / 2;

/// Whether one of these ticks is among those after `seen`, up to `latest`.
pub fn is_between(seen: u64, latest: u64) -> bool {
    latest / EVERY > seen / EVERY
}

/// How long the source answers.
pub fn window_ns(interval_ns: u64) -> u64 {
    interval_ns / 4
}
