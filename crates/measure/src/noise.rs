//! Noise is measured, not assumed (rule 9).

use serde::{Deserialize, Serialize};

/// What disturbed a stretch of time. Counts that a place cannot see are 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Nanoseconds of steal over all CPUs (10 ms steps, as `/proc/stat` has them).
    pub steal_ns: u64,
    /// Times that the measured threads were preempted.
    pub involuntary_switches: u64,
    /// Nanoseconds of CPU time that neither the measured work nor idle accounts for.
    pub other_load_ns: u64,
    /// Nanoseconds by which CLOCK_REALTIME moved against CLOCK_MONOTONIC.
    pub clock_jump_ns: u64,
}
