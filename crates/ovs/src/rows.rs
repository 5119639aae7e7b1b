//! Access to the columns of rows.

use ovsdb::{Cache, Datum, Row, Uuid};

/// The rows of `table` that a column names, each with its identity.
pub(crate) fn rows<'a>(
    cache: &'a Cache,
    row: &'a Row,
    column: &str,
    table: &'static str,
) -> impl Iterator<Item = (Uuid, &'a Row)> {
    let ids = row.get(column).into_iter().flat_map(Datum::uuids);
    ids.filter_map(move |id| Some((id, cache.row(table, id)?)))
}

/// The text of a column, empty if it has none.
pub(crate) fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Datum::text).unwrap_or_default()
}

/// The integer of a column.
pub(crate) fn integer(row: &Row, column: &str) -> Option<i64> {
    row.get(column).and_then(Datum::integer)
}

/// An option of an interface.
pub(crate) fn option<'a>(row: &'a Row, key: &str) -> Option<&'a str> {
    row.get("options").and_then(|options| options.get(key))
}

/// Whether a column has nothing.
pub(crate) fn is_empty(row: &Row, column: &str) -> bool {
    row.get(column).is_none_or(Datum::is_empty)
}
