//! Why a switch did not start, or ended by itself.
use std::io;

use linux::interrupt::Interrupted;

/// Settings that cannot be: what is wrong, and what can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

/// Why the service ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are wrong; nothing was started.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The system refused.
    #[error("{action}: {source}; {remedy}")]
    System {
        /// What was tried.
        action: String,
        /// What the system answered.
        source: io::Error,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The switch could not continue.
    #[error(transparent)]
    Run(#[from] switch::RunError),
    /// The counters could not be written.
    #[error("writing the counters to the standard output or the file of --output: {0}")]
    Counters(io::Error),
    /// SIGINT ended the switch.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Error {
    /// For `map_err`: an error of the system, with what was tried.
    pub(crate) fn system(action: impl Into<String>, remedy: &'static str) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Error::System { action, source, remedy }
    }
}
