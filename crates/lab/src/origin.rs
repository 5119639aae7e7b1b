//! The fields at the beginning of every results file.

use measure::Failure;
use measure::host_facts::HostFacts;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The version that results files name. The program that `make compare` builds has no scenarios.
pub(crate) const VERSION: &str = if cfg!(feature = "chains") {
    env!("CARGO_PKG_VERSION")
} else {
    concat!(env!("CARGO_PKG_VERSION"), "+compare")
};

/// Schema, version and start of a results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The schema's name and version, docs/results-schema.md.
    pub schema: String,
    /// The version of the program.
    pub tautline: String,
    /// When the run began, in UTC.
    pub started: String,
    /// The machine.
    pub host: HostFacts,
}

impl Origin {
    /// The origin of a file of this schema that begins now, on this machine.
    ///
    /// # Errors
    /// The system's time is not a valid date.
    pub fn now(schema: &str) -> Result<Self, Failure> {
        Ok(Origin {
            schema: schema.to_owned(),
            tautline: VERSION.to_owned(),
            started: now()?,
            host: HostFacts::gather(),
        })
    }
}

/// The present time in the format of results files.
///
/// # Errors
/// The system's time is not a valid date.
pub fn now() -> Result<String, Failure> {
    let written = OffsetDateTime::now_utc().format(&Rfc3339);
    written.map_err(|error| Failure::new("writing the time of now", error, "set the machine's clock"))
}
