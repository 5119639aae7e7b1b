//! Names of environments for the outputs, with their marks.

use lab::tti::Row;

/// The name of a row's environment, with the mark of an emulated CPU.
pub fn marked(row: &Row) -> String {
    let is_emulated = row.found().is_ok_and(|outcome| outcome.is_emulated);
    format!("{}{}", row.environment, if is_emulated { report::EMULATED_MARK } else { "" })
}
