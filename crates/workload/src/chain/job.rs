//! The job of a chain member.

use std::path::PathBuf;

use scenario::chain::Job;
use serde::{Deserialize, Serialize};

/// The port of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberPort {
    /// A vhost-user socket of the switch, on the machine of the first member.
    Socket(PathBuf),
    /// A network interface of a guest, which shares memory with the first member's machine to read that machine's
    /// clock.
    Interface(String),
}

/// The member's port, and its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainJob {
    /// The member's port.
    pub port: MemberPort,
    /// The member's work.
    pub job: Job,
    /// The time limit within which the chain has ended, in ms.
    pub limit_ms: u64,
}
