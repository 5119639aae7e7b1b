//! What is written, docs/results-schema.md.

use std::path::PathBuf;

use crypto_driver::bench::Row;
use serde::{Deserialize, Serialize};

use lab::Origin;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-crypto-bench/1";

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Where the file comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The socket.
    pub target: PathBuf,
    /// Packed rings.
    pub packed: bool,
    /// Requests under way at once.
    pub depth: u16,
    /// Length of a trial, ns.
    pub trial_ns: u64,
    /// Each algorithm and size.
    pub rows: Vec<Row>,
}
