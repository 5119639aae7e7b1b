//! What is written of a trace.

use kvm::trace::Times;
use serde::Serialize;

/// What is written.
#[derive(Serialize)]
pub struct Trace {
    pub schema: &'static str,
    pub tautline: &'static str,
    pub started: String,
    pub host: measure::host_facts::HostFacts,
    pub accelerator: String,
    pub pid: u32,
    /// How it was counted.
    pub method: &'static str,
    pub seconds: f64,
    #[serde(flatten)]
    pub times: Times,
}
