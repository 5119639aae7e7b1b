//! Tables of text, and names of paths in them.

use crate::{EMULATED_MARK, units};

/// A table of text.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) note: Option<&'static str>,
}

/// The name of a path: its pieces, with the mark if emulated.
pub(crate) fn path_name(path: &measure::network::PathRecord) -> String {
    let mark = if path.emulated { EMULATED_MARK } else { "" };
    format!("{}{mark}", units::text(&path.pieces.join(" + ")))
}

/// Names of paths for a column. A path that adds one piece to the path above it is named by that piece.
pub(crate) fn names<'a>(paths: impl Iterator<Item = &'a measure::network::PathRecord>) -> Vec<String> {
    let mut above: Option<&measure::network::PathRecord> = None;
    let name = |path: &'a measure::network::PathRecord| {
        let adds_to_it = above.is_some_and(|above| {
            path.adds_to.as_ref() == Some(&above.name)
                && path.pieces.split_last().is_some_and(|(_, others)| *others == above.pieces)
        });
        above = Some(path);
        match path.pieces.last() {
            Some(piece) if adds_to_it => {
                format!("  + {}{}", units::text(piece), if path.emulated { EMULATED_MARK } else { "" })
            }
            _ => path_name(path),
        }
    };
    paths.map(name).collect()
}
