//! The settings of a measurement by `tautline scenario`.

use scenario::Description;

use crate::PlannedEnvironment;

/// The settings of all trials.
pub struct Job {
    /// The chain, its tick and its load.
    pub description: Description,
    /// The environments, in order.
    pub environments: Vec<PlannedEnvironment>,
    /// The users of the only trial; if `None`, a search finds how many fit.
    pub users: Option<u32>,
    /// Ticks of a trial.
    pub ticks: u64,
    /// Searches or trials in each environment.
    pub repeat: u32,
    /// How many of 1000 ticks may be missed while the users still count as served.
    pub missed_per_thousand: u32,
    /// The search ends when the number of users is known within this many percent.
    pub within_percent: u32,
    /// CPUs that the members and the switch may use.
    pub cpus: Vec<usize>,
    /// Whether each member pins itself to `cpus`.
    pub is_bound: bool,
    /// SCHED_FIFO priority of members.
    pub priority: Option<i32>,
}
