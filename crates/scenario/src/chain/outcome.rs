//! What members say when a chain has ended.

use measure::Histogram;
use serde::{Deserialize, Serialize};

/// What one member counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Ticks: of the first those that it sent, of others those whose end came.
    pub ticks: u64,
    /// Data frames that came.
    pub received: u64,
    /// Data frames that were sent for those ticks to this member, by what their ends say.
    pub announced: u64,
    /// Data frames that it sent.
    pub sent: u64,
    /// Frames for which its port had no room in time.
    pub dropped: u64,
    /// What it could make no sense of.
    pub refused: u64,
    /// Of the first: instants that passed while it was late by a whole interval or more; no tick was sent for them.
    pub skipped: u64,
    /// In a guest: how far the clock that it was given for the first member's was off at most, ns; 0 on one machine.
    pub clock_error_ns: u64,
    /// What was wanted and refused.
    pub remarks: Vec<String>,
    /// Of the last.
    pub ended: Option<Ended>,
}

/// What the last member saw of the ticks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Ticks of which all work was done and right, by the deadline.
    pub in_time: u64,
    /// Ticks of which all work was done and right, but later.
    pub late: u64,
    /// Ticks of which work was missing.
    pub incomplete: u64,
    /// Ticks whose times at the members are not in order: a guest's clock was off by more than a stage took.
    pub disordered: u64,
    /// From due to done.
    pub latency: Histogram,
    /// Where that time went: they add up to it.
    pub stages: Vec<Stage>,
    /// The slowest tick: its number, and its time in each stage, ns.
    pub worst: (u64, Vec<u64>),
}

/// A stage of a tick's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// A member's name, or `to` and the name for the way to it.
    pub name: String,
    /// What is allowed, ns.
    pub budget_ns: Option<u64>,
    /// What was needed.
    pub time: Histogram,
}
