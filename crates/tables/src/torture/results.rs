//! What is written, docs/results-schema.md.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use torture::{Counts, Requests, Undisturbed};

use lab::Origin;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-torture/1";

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Where the file comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The socket.
    pub target: PathBuf,
    /// The command that started the back-end, if one did.
    pub command: Option<String>,
    /// Which cases were made: the same seed makes the same.
    pub seed: u64,
    /// What came of each family of cases.
    pub families: Vec<Counts>,
    /// What became of the bystanders' frames.
    pub beside: Option<Undisturbed>,
    /// What became of the bystander's requests to a crypto device.
    #[serde(default)]
    pub requests_beside: Option<Requests>,
}
