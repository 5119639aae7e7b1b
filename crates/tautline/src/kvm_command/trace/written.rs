//! What is written of a trace.

use kvm::trace::Times;
use kvm::trace::overhead::Overhead;
use kvm::trace::statistics::Count;
use serde::{Deserialize, Serialize};

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Trace {
    pub schema: String,
    pub tautline: String,
    pub started: String,
    pub host: measure::host_facts::HostFacts,
    pub accelerator: String,
    /// Whether the CPU is an emulated one.
    #[serde(default)]
    pub emulated: bool,
    pub pid: u32,
    /// How it was counted.
    pub method: String,
    pub seconds: f64,
    #[serde(flatten)]
    pub times: Times,
    /// What tracing itself cost.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// What is missing, and why.
    #[serde(default)]
    pub not_measured: Vec<String>,
    /// KVM's own counts, where nothing could be traced.
    #[serde(default)]
    pub statistics: Vec<Count>,
}
