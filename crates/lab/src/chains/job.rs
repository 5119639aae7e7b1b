//! What is asked for.

use environment::Spec;
use scenario::Description;

/// What is the same for all trials.
pub struct Job {
    /// The chain, its tick and its load.
    pub description: Description,
    /// Names and kinds of the environments, in order.
    pub environments: Vec<(String, Spec)>,
    /// One trial with so many; otherwise a search.
    pub users: Option<u32>,
    /// Ticks of a trial.
    pub ticks: u64,
    /// Searches or trials in each environment.
    pub repeat: u32,
    /// Ticks of 1000 that may be missed by users that fit.
    pub missed_per_thousand: u32,
    /// How close a search comes to its answer.
    pub within_percent: u32,
    /// Where members and switch run.
    pub cpus: Vec<usize>,
    /// Whether members bind themselves to these.
    pub is_bound: bool,
    /// SCHED_FIFO priority of members.
    pub priority: Option<i32>,
}
