//! What is asked for.

use std::path::PathBuf;

use ::ticks::receiver;
use serde::{Deserialize, Serialize};

pub use crate::load::Load;

/// How the receiver comes to its end of the doorbell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doorbell {
    /// As a client of the server at this socket.
    Socket(PathBuf),
    /// As the PCI device of this guest.
    Device,
}

/// What is received, where from, and what goes on beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicksJob {
    /// Where the source is.
    pub doorbell: Doorbell,
    /// Whether the guest's kernel writes when it handles them, and how many there will be.
    pub traced: Option<u64>,
    /// How it is received.
    pub receiver: receiver::Plan,
    /// The load on the receiver's CPU, at normal priority.
    pub load: Option<Load>,
    /// CPUs to work on; the first runs the receiver.
    pub cpus: Vec<usize>,
    /// The source has ended by then, ms.
    pub limit_ms: u64,
}
