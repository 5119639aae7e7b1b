//! Why a device ends.

/// Why a device cannot be made, started or continued.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}; {remedy}")]
pub struct DeviceError {
    /// What was tried.
    pub what: String,
    /// What the system or the peer answered.
    pub why: String,
    /// What the user can do.
    pub remedy: String,
}

impl DeviceError {
    /// An error: what was tried, what was answered, and what the user can do.
    pub fn new(what: impl Into<String>, why: impl ToString, remedy: impl Into<String>) -> Self {
        DeviceError { what: what.into(), why: why.to_string(), remedy: remedy.into() }
    }
}
