//! The settings of a measurement by `tautline host verify`.

use std::path::PathBuf;
use std::time::Duration;

/// The measured states, and the number of repetitions.
pub struct Plan {
    /// The rules to verify; if empty, all that can be changed at run time.
    pub rules: Vec<String>,
    /// Rules whose hazards the user accepts.
    pub accept: Vec<String>,
    /// Whether each rule is also measured alone.
    pub ablate: bool,
    /// How long each state is measured, summed over all blocks.
    pub time: Duration,
    /// How often every state is set up afresh.
    pub blocks: u32,
    /// The file in which the values found are kept for undo.
    pub journal: PathBuf,
}

impl Plan {
    /// The length of one sample.
    pub(super) fn sample(&self) -> Duration {
        self.time / self.blocks
    }
}
