//! One environment under one load, and what came of it.

use environment::Spec;
use environment::spec::split_list;
use measure::Failure;
use pv_sched::Raised;
use serde::{Deserialize, Serialize};
use ticks::receiver::Received;
use ticks::source::Sent;
use ticks::stages::{Blamed, Summary};
use workload::ticks::Load;

use crate::exit::Usage;

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

/// The environments of a list.
pub fn environments(list: &str) -> anyhow::Result<Vec<(String, Spec)>> {
    let read = |text: String| {
        let spec: Spec =
            text.parse().map_err(|error: environment::spec::SpecError| Usage(error.to_string()))?;
        match spec {
            Spec::Host | Spec::Container(_) | Spec::Vm(_) => Ok((text, spec)),
            Spec::Remote(_) => Err(Usage(format!(
                "{text}: ticks come from this machine, and are received on it; leave it out"
            ))
            .into()),
        }
    };
    split_list(list).into_iter().map(read).collect()
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

/// Its name, with the mark of an emulated CPU.
pub fn marked(row: &Row) -> String {
    let is_emulated = row.outcome.as_ref().is_ok_and(|outcome| outcome.is_emulated);
    format!("{}{}", row.environment, if is_emulated { report::EMULATED_MARK } else { "" })
}
