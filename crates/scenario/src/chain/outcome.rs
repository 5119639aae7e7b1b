//! The reports of members when a chain has ended.

use measure::Histogram;
use serde::{Deserialize, Serialize};

/// The counts of one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The number of ticks. For the first member, ticks sent; for the others, ticks whose end arrived.
    pub ticks: u64,
    /// Data frames that came.
    pub received: u64,
    /// Data frames that were sent to this member for those ticks, according to the ends of the ticks.
    pub announced: u64,
    /// Data frames that the member sent.
    pub sent: u64,
    /// Frames for which the member's port had no room in time.
    pub dropped: u64,
    /// Data that the member could not process.
    pub refused: u64,
    /// For the first member: instants without a tick, because it was late by a whole interval or more.
    pub skipped: u64,
    /// For a member in a guest: the bound of the error of its conversion to the first member's clock, ns; 0 on one
    /// machine.
    pub clock_error_ns: u64,
    /// Settings that the system refused.
    pub remarks: Vec<String>,
    /// The results of the last member.
    pub ended: Option<Ended>,
}

/// The results of the last member about the ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Ticks whose work was complete and correct by the deadline.
    pub in_time: u64,
    /// Ticks whose work was complete and correct, but after the deadline.
    pub late: u64,
    /// Ticks with missing work.
    pub incomplete: u64,
    /// Ticks whose times at the members are not in order, because a guest's clock was wrong by more than a stage
    /// took.
    pub disordered: u64,
    /// The time from due to done.
    pub latency: Histogram,
    /// The parts of that time by stage, which add up to it.
    pub stages: Vec<Stage>,
    /// The slowest tick: its number, and its time in each stage, ns.
    pub worst: (u64, Vec<u64>),
}

/// A stage of a tick's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The name of a member, or `to` and the name for the transfer to that member.
    pub name: String,
    /// The budget of the stage, ns.
    pub budget_ns: Option<u64>,
    /// The time that the stage took.
    pub time: Histogram,
}
