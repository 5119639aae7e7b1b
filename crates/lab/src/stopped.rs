//! Why an experiment ended early.

use linux::interrupt::Interrupted;
use measure::Failure;

/// Why an experiment ended before it had all that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The user interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Something could not be done.
    #[error(transparent)]
    Failed(#[from] Failure),
}
