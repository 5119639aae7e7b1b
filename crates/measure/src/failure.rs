use serde::{Deserialize, Serialize};

/// The failure of an operation, in the three parts that every error of this project has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{tried}: {answer}; {remedy}")]
pub struct Failure {
    /// What was tried, in a form that the user could try.
    pub tried: String,
    /// What the system answered.
    pub answer: String,
    /// What the user can do about it.
    pub remedy: String,
}

impl Failure {
    /// The three parts in their order.
    pub fn new(tried: impl Into<String>, answer: impl ToString, remedy: impl Into<String>) -> Self {
        Failure { tried: tried.into(), answer: answer.to_string(), remedy: remedy.into() }
    }

    /// A thread of this program panicked during the operation.
    pub fn panicked(tried: impl Into<String>) -> Self {
        Self::new(
            tried,
            "its thread panicked",
            "standard error names the line, which is a mistake of Tautline; leave this part out to have the others",
        )
    }
}
