//! The result of one environment under one load.

use measure::Failure;
use pv_sched::Raised;
use serde::{Deserialize, Serialize};
use ticks::receiver::Received;
use ticks::source::Sent;
use ticks::stages::{Blamed, Summary};
use workload::ticks::Load;

use crate::runner::Attempt;

/// The result of one environment under one load.
#[derive(Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub environment: String,
    /// The load on the receiver's CPU.
    pub load: Option<Load>,
    /// The measurement that counts, or why there is none.
    pub outcome: Result<Attempt<Outcome>, Failure>,
    /// Earlier attempts, which were over a noise limit and were repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discarded: Vec<Attempt<Outcome>>,
}

impl Row {
    /// The measurement that counts.
    ///
    /// # Errors
    /// The reason why there is no outcome.
    pub fn found(&self) -> Result<&Outcome, &Failure> {
        self.outcome.as_ref().map(|attempt| &attempt.measured)
    }

    /// All attempts that gave figures, in order.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt<Outcome>> {
        self.discarded.iter().chain(&self.outcome)
    }
}

/// A measurement.
#[derive(Serialize, Deserialize)]
pub struct Outcome {
    /// The accelerator that executed the receiver's instructions: `native`, `kvm-vmx`, `tcg`.
    pub accelerator: String,
    /// Whether the receiver's CPU, or one below it, is emulated.
    pub is_emulated: bool,
    /// The counts of the source.
    pub sent: Sent,
    /// The counts of the receiver.
    pub received: Received,
    /// How the receiver was raised by its hints.
    pub raised: Option<Raised>,
    /// The stages of the last ticks; memory keeps a limited number of them.
    pub stages: Summary,
    /// The latest of the ticks in `stages`.
    pub worst: Option<Blamed>,
}

/// The load's name on the command line.
pub fn load_name(load: Option<Load>) -> &'static str {
    match load {
        None => "none",
        Some(Load::Cpu) => "cpu",
        Some(Load::Memory) => "memory",
        Some(Load::Io) => "io",
        Some(Load::Network) => "network",
    }
}
