//! The results file of `tautline crypto bench`, docs/results-schema.md.

use std::path::PathBuf;

use crypto_driver::bench::Row;
use serde::{Deserialize, Serialize};

use lab::Origin;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-crypto-bench/1";

/// The document that is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Version, start and machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The socket.
    pub target: PathBuf,
    /// Packed rings.
    pub packed: bool,
    /// Requests that are outstanding at once.
    pub depth: u16,
    /// Length of a trial, ns.
    pub trial_ns: u64,
    /// The results of each algorithm and size.
    pub rows: Vec<Row>,
}
