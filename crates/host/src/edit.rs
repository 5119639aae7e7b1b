//! Changes that the user makes to a file by hand.

use serde::{Deserialize, Serialize};

/// A line to write to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The file to change.
    pub file: String,
    /// The number of the first line to replace, counted from 1; `None` if the line is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// The present line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// The new line.
    pub line: String,
}

impl Edit {
    /// A new line that replaces no other line.
    pub fn new(file: &str, line: String) -> Self {
        Edit { file: file.to_owned(), number: None, now: None, line }
    }
}
