//! What is asked for.

use std::path::PathBuf;

use ::ticks::receiver;
use serde::{Deserialize, Serialize};

pub use crate::load::Load;

/// What is received, where from, and what goes on beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicksJob {
    /// The source's socket.
    pub doorbell: PathBuf,
    /// How it is received.
    pub receiver: receiver::Plan,
    /// The load on the receiver's CPU, at normal priority.
    pub load: Option<Load>,
    /// CPUs to work on; the first runs the receiver.
    pub cpus: Vec<usize>,
    /// The source has ended by then, ms.
    pub limit_ms: u64,
}
