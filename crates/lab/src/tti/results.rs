//! The results file of `tautline tti`, docs/results-schema.md.

use serde::{Deserialize, Serialize};
use ticks::receiver;

use super::pv_sched::PvSched;
use super::row::Row;
use crate::Origin;

/// The document that is written.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// Version, start and machine of the run.
    #[serde(flatten)]
    pub origin: Origin,
    /// The time from one tick to the next, ns.
    pub interval_ns: u64,
    /// The longest allowed time from due to running in user space, ns.
    pub budget_ns: u64,
    /// The CPUs of the source and of the receiver.
    pub cpus: [usize; 2],
    /// How the receiver waits.
    pub wait: receiver::Wait,
    /// A row for each environment and load.
    pub rows: Vec<Row>,
    /// The results with `--pv-sched`; there are no rows then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pv_sched: Vec<PvSched>,
}
