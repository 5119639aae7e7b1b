//! What to write into a file by hand.

use serde::{Deserialize, Serialize};

/// Lines to have in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The file to change.
    pub file: String,
    /// The number of the first line that is replaced, from 1; none where the line is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<usize>,
    /// The line that is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// The line that is to be there.
    pub line: String,
}

impl Edit {
    /// A line that replaces none.
    pub fn new(file: &str, line: String) -> Self {
        Edit { file: file.to_owned(), number: None, now: None, line }
    }
}
