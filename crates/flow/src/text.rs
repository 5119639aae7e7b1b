//! The text form of `ovs-ofctl`.

mod action;
mod flags;
mod flow;
mod group;
mod parse;
mod print;
mod value;

use thiserror::Error;

/// A word of a flow that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{word:?}: {why}; accepted: {accepted}")]
pub struct ParseError {
    /// The word.
    pub word: String,
    /// What is wrong with it.
    pub why: String,
    /// What can stand there.
    pub accepted: String,
}

impl ParseError {
    fn new(word: impl Into<String>, why: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self { word: word.into(), why: why.into(), accepted: accepted.into() }
    }
}
