use serde::{Deserialize, Serialize};

/// Why something could not be done, in the three parts that every error of this project has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{tried}: {answer}; {remedy}")]
pub struct Failure {
    /// What was tried, as the user could try it.
    pub tried: String,
    /// What the system answered.
    pub answer: String,
    /// What to do about it.
    pub remedy: String,
}

impl Failure {
    /// The three parts in their order.
    pub fn new(tried: impl Into<String>, answer: impl ToString, remedy: impl Into<String>) -> Self {
        Failure { tried: tried.into(), answer: answer.to_string(), remedy: remedy.into() }
    }

    /// A thread of this program panicked in the course of what was tried.
    pub fn panicked(tried: impl Into<String>) -> Self {
        Self::new(
            tried,
            "its thread panicked",
            "standard error names the line, which is a mistake of Tautline; leave this part out to have the others",
        )
    }
}
