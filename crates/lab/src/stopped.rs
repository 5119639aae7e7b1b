//! Why an experiment ended early.

use linux::interrupt::Interrupted;
use measure::Failure;

/// Why an experiment ended before it was complete.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The user interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A step of the experiment failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}
