//! What is asked for.

use std::path::PathBuf;

use scenario::chain::Job;
use serde::{Deserialize, Serialize};

/// Which member this is, and where its port is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainJob {
    /// The switch's vhost-user socket.
    pub socket: PathBuf,
    /// What it does.
    pub job: Job,
    /// The chain has ended by then, ms.
    pub limit_ms: u64,
}
