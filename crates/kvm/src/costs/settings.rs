//! What a run is given, and what it tells before its rows.

use super::alignment::Alignment;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Samples for each row, at most [`MOST_SAMPLES`].
    pub samples: usize,
    /// Two CPUs: the first virtual CPU's, and that of the other virtual CPU or of who signals.
    pub cpus: [usize; 2],
}

/// What a row takes at most.
pub const MOST_SAMPLES: usize = 50_000;

/// What a run tells while it goes on.
pub struct Prepared {
    /// Whether the CPU is emulated.
    pub emulated: bool,
    /// Frequency of the time-stamp counter.
    pub tsc_khz: u32,
    /// How well the clocks are aligned.
    pub alignment: Option<Alignment>,
}
