//! The results file of `tautline torture`, docs/results-schema.md.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use torture::{Counts, Requests, Undisturbed};

use lab::Origin;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-torture/1";

/// The document that is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Version, start and machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The socket.
    pub target: PathBuf,
    /// The command that started the back-end, if one did.
    pub command: Option<String>,
    /// The seed of the cases. The same seed makes the same cases.
    pub seed: u64,
    /// The counts of each family of cases.
    pub families: Vec<Counts>,
    /// The bystanders' frames: how many arrived, were lost or changed.
    pub beside: Option<Undisturbed>,
    /// The bystander's requests to a crypto device, and their results.
    #[serde(default)]
    pub requests_beside: Option<Requests>,
}
