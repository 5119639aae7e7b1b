//! What is written of a trace.

use kvm::trace::Times;
use kvm::trace::overhead::Overhead;
use kvm::trace::statistics::Count;
use serde::{Deserialize, Serialize};

use super::record::Heading;

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Trace {
    /// Where the file comes from, and whose guest was traced.
    #[serde(flatten)]
    pub heading: Heading,
    /// How it was counted.
    pub method: String,
    /// For how long.
    pub seconds: f64,
    /// Exits by reason, and where the time went.
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
