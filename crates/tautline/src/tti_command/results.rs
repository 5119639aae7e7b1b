//! What is written, docs/results-schema.md.

use serde::{Deserialize, Serialize};
use ticks::receiver;

use super::row::Row;
use crate::origin::Origin;

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    #[serde(flatten)]
    pub origin: Origin,
    pub interval_ns: u64,
    pub budget_ns: u64,
    /// Of the source, and of the receiver.
    pub cpus: [usize; 2],
    pub wait: receiver::Wait,
    pub rows: Vec<Row>,
}
