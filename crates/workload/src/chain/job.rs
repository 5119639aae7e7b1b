//! What is asked for.

use std::path::PathBuf;

use scenario::chain::Job;
use serde::{Deserialize, Serialize};

/// Where a member's port is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberPort {
    /// A vhost-user socket of the switch, on the machine of the first member.
    Socket(PathBuf),
    /// This network interface of a guest, which shares memory with the first member's machine to ask for its time.
    Interface(String),
}

/// Which member this is, and where its port is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainJob {
    /// Where its port is.
    pub port: MemberPort,
    /// What it does.
    pub job: Job,
    /// The chain has ended by then, ms.
    pub limit_ms: u64,
}
