//! What is written, docs/results-schema.md.

use serde::{Deserialize, Serialize};
use ticks::receiver;

use super::row::Row;

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub tautline: String,
    pub started: String,
    pub host: measure::host_facts::HostFacts,
    pub interval_ns: u64,
    pub budget_ns: u64,
    /// Of the source, and of the receiver.
    pub cpus: [usize; 2],
    pub wait: receiver::Wait,
    pub rows: Vec<Row>,
}
