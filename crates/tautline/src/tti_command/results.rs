//! What is written, docs/results-schema.md.

use serde::{Deserialize, Serialize};
use ticks::receiver;

use super::pv_sched::PvSched;
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
    /// With `--pv-sched`, in place of rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pv_sched: Vec<PvSched>,
}
