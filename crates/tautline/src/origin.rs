//! What every results file begins with.

use anyhow::Context;
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
    /// Of a file of this schema that begins now, on this machine.
    ///
    /// # Errors
    /// The clock says no time that can be written.
    pub fn now(schema: &str) -> anyhow::Result<Self> {
        Ok(Origin {
            schema: schema.to_owned(),
            tautline: env!("CARGO_PKG_VERSION").to_owned(),
            started: OffsetDateTime::now_utc().format(&Rfc3339).context("writing the time")?,
            host: HostFacts::gather(),
        })
    }
}
