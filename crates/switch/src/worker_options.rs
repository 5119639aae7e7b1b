//! How workers work, and what all of them share.
use std::sync::Arc;
use std::time::Duration;

use crate::forward::Rules;
use crate::keyed::Key;
use crate::table::MacTable;

/// How workers work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Frames that are taken from a source at a time.
    pub burst: usize,
    /// How long a worker goes on asking after the last frame, before it sleeps. One without a CPU of its own
    /// does so only while frames come more often than this.
    pub spin: Duration,
    /// How often a sleeping worker asks sources that cannot wake it.
    pub poll_interval: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        WorkerOptions { burst: 32, spin: Duration::from_micros(60), poll_interval: Duration::from_millis(5) }
    }
}

/// What all workers share.
pub(crate) struct Common {
    pub table: MacTable,
    pub rules: Vec<Arc<Rules>>,
    pub key: Key,
    pub options: WorkerOptions,
}
