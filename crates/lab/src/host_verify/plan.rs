//! What is asked for.

use std::path::PathBuf;
use std::time::Duration;

/// What is asked for.
pub struct Plan {
    /// The rules to verify; none are all that can be changed at run time.
    pub rules: Vec<String>,
    /// Rules whose hazard the user accepts.
    pub accept: Vec<String>,
    /// Each rule alone as well.
    pub ablate: bool,
    /// How long each state is measured, over all blocks.
    pub time: Duration,
    /// How often every state is set up afresh.
    pub blocks: u32,
    /// Where the values found are kept for undo.
    pub journal: PathBuf,
}

impl Plan {
    /// The length of one sample.
    pub(super) fn sample(&self) -> Duration {
        self.time / self.blocks
    }
}
