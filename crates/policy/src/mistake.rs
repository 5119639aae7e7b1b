//! Mistakes, and their places in the text.
use std::ops::Range;

/// A mistake in the text of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct Mistake {
    /// The line, from 1.
    pub line: usize,
    /// The mistake, and what to write instead.
    pub what: String,
}

/// A mistake at a place of the text.
#[derive(Debug)]
pub struct Wrong {
    /// The place in bytes.
    pub at: Range<usize>,
    pub what: String,
}

impl Wrong {
    pub fn new(at: Range<usize>, what: impl Into<String>) -> Self {
        Wrong { at, what: what.into() }
    }

    /// The mistake with its line in the text.
    pub fn in_text(self, text: &str) -> Mistake {
        let before = text.as_bytes().get(..self.at.start).unwrap_or_default();
        Mistake { line: 1 + before.iter().filter(|byte| **byte == b'\n').count(), what: self.what }
    }
}
