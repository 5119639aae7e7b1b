//! The text form of `ovs-ofctl`.

mod action;
mod flags;
mod flow;
mod group;
mod parse;
mod print;
mod value;

use thiserror::Error;

/// The error for a word of a flow that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{word:?}: {why}; accepted: {accepted}")]
pub struct ParseError {
    /// The word.
    pub word: String,
    /// What is wrong with the word.
    pub why: String,
    /// The texts that are accepted in its place.
    pub accepted: String,
}

impl ParseError {
    fn new(word: impl Into<String>, why: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self { word: word.into(), why: why.into(), accepted: accepted.into() }
    }
}
