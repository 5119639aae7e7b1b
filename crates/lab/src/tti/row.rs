//! One environment under one load, and what came of it.

use measure::Failure;
use pv_sched::Raised;
use serde::{Deserialize, Serialize};
use ticks::receiver::Received;
use ticks::source::Sent;
use ticks::stages::{Blamed, Summary};
use workload::ticks::Load;

/// What came of it.
#[derive(Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub environment: String,
    /// What ran beside the receiver.
    pub load: Option<Load>,
    /// What was found, or why there is nothing.
    pub outcome: Result<Outcome, Failure>,
}

/// What was found.
#[derive(Serialize, Deserialize)]
pub struct Outcome {
    /// What ran the receiver's instructions, `native`, `kvm-vmx`, `tcg`.
    pub accelerator: String,
    /// Whether that was an emulated CPU, here or further out.
    pub is_emulated: bool,
    /// What the source did.
    pub sent: Sent,
    /// What the receiver saw.
    pub received: Received,
    /// What was done for the receiver by its hints.
    pub raised: Option<Raised>,
    /// The stages of the last ticks, as many as memory keeps.
    pub stages: Summary,
    /// The latest of these.
    pub worst: Option<Blamed>,
}

/// As the command line has it.
pub fn load_name(load: Option<Load>) -> &'static str {
    match load {
        None => "none",
        Some(Load::Cpu) => "cpu",
        Some(Load::Memory) => "memory",
        Some(Load::Io) => "io",
        Some(Load::Network) => "network",
    }
}
