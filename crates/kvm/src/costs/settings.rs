//! The settings of a run, and what is known before its rows are measured.

use super::alignment::Alignment;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Samples for each row, at most [`MOST_SAMPLES`].
    pub samples: usize,
    /// Two CPUs of the host: one for the first virtual CPU, one for the second or for the thread that signals.
    pub cpus: [usize; 2],
}

/// The most samples of a row.
pub const MOST_SAMPLES: usize = 50_000;

/// What a run reports before its rows.
pub struct Prepared {
    /// Whether the CPU is emulated.
    pub emulated: bool,
    /// Frequency of the guest's time-stamp counter, in kHz.
    pub tsc_khz: u32,
    /// How well the clocks are aligned.
    pub alignment: Option<Alignment>,
}
