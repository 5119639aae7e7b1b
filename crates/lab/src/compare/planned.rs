//! An environment as it was planned.

use environment::Spec;

/// One environment of the run.
#[derive(Clone, Debug)]
pub struct PlannedEnvironment {
    /// Its name; a second one of a kind has a number.
    pub name: String,
    /// As the user wrote it.
    pub text: String,
    /// What it is.
    pub spec: Spec,
}
