//! An environment of the plan.

use environment::Spec;

/// One environment of the run.
#[derive(Clone, Debug)]
pub struct PlannedEnvironment {
    /// The environment's name. The second one of a kind has a number.
    pub name: String,
    /// The environment in the syntax of the command line.
    pub text: String,
    /// The kind and settings of the environment.
    pub spec: Spec,
}
