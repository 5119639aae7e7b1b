//! The number by which a burst knows its queue.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that no other queue of this process has.
pub(super) fn fresh_owner() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
