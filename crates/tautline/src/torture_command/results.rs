//! What is written, docs/results-schema.md.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use torture::{Counts, Undisturbed};

use lab::Origin;

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    #[serde(flatten)]
    pub origin: Origin,
    /// The socket.
    pub target: PathBuf,
    /// The command that started the back-end, if one did.
    pub command: Option<String>,
    pub seed: u64,
    pub families: Vec<Counts>,
    /// What became of the bystanders' frames.
    pub beside: Option<Undisturbed>,
}
