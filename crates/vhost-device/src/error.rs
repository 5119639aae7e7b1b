//! Why a device ends.

/// Why a device cannot be made or started, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}; {remedy}")]
pub struct DeviceError {
    /// What was tried.
    pub what: String,
    /// What the system or the peer said.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl DeviceError {
    /// What was tried, what came of it, and what to do.
    pub fn new(what: impl Into<String>, why: impl ToString, remedy: impl Into<String>) -> Self {
        DeviceError { what: what.into(), why: why.to_string(), remedy: remedy.into() }
    }
}
