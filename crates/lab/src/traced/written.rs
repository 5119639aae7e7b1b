//! The results file of `tautline kvm trace`.

use kvm::trace::Times;
use kvm::trace::overhead::Overhead;
use kvm::trace::statistics::Count;
use serde::{Deserialize, Serialize};

use super::record::Heading;

/// The document that is written.
#[derive(Serialize, Deserialize)]
pub struct Trace {
    /// Version, start and machine of the run, and the process whose guest was traced.
    #[serde(flatten)]
    pub heading: Heading,
    /// How exits were counted.
    pub method: String,
    /// How long was traced, in seconds.
    pub seconds: f64,
    /// Exits by reason, and where the time went.
    #[serde(flatten)]
    pub times: Times,
    /// The cost of the tracing.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// The missing measurements, each with the reason.
    #[serde(default)]
    pub not_measured: Vec<String>,
    /// KVM's own counts, if nothing could be traced.
    #[serde(default)]
    pub statistics: Vec<Count>,
}
