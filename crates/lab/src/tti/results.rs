//! What is written, docs/results-schema.md.

use serde::{Deserialize, Serialize};
use ticks::receiver;

use super::pv_sched::PvSched;
use super::row::Row;
use crate::Origin;

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// What every results file begins with.
    #[serde(flatten)]
    pub origin: Origin,
    /// From one tick to the next.
    pub interval_ns: u64,
    /// The time from due to running in user space that a receiver is allowed.
    pub budget_ns: u64,
    /// Of the source, and of the receiver.
    pub cpus: [usize; 2],
    /// How the receiver waits.
    pub wait: receiver::Wait,
    /// A row for each environment and load.
    pub rows: Vec<Row>,
    /// With `--pv-sched`, in place of rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pv_sched: Vec<PvSched>,
}
