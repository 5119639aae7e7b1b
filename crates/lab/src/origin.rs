//! What every results file begins with.

use measure::Failure;
use measure::host_facts::HostFacts;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// What a results file is, and where it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// The schema's name and version, docs/results-schema.md.
    pub schema: String,
    /// The version of the program.
    pub tautline: String,
    /// When it was begun.
    pub started: String,
    /// The machine.
    pub host: HostFacts,
}

impl Origin {
    /// The origin of a file of this schema that begins now, on this machine.
    ///
    /// # Errors
    /// The clock's time cannot be written.
    pub fn now(schema: &str) -> Result<Self, Failure> {
        Ok(Origin {
            schema: schema.to_owned(),
            tautline: env!("CARGO_PKG_VERSION").to_owned(),
            started: now()?,
            host: HostFacts::gather(),
        })
    }
}

/// The time of now, as results files have it.
///
/// # Errors
/// The clock's time cannot be written.
pub fn now() -> Result<String, Failure> {
    let written = OffsetDateTime::now_utc().format(&Rfc3339);
    written.map_err(|error| Failure::new("writing the time of now", error, "set the machine's clock"))
}
