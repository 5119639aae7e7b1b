//! The rows that a client follows, kept up to date by the server's updates (ovsdb-server(7), `update2`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::limits::Limits;
use crate::schema::{ColumnType, Columns, Schema};
use crate::value::{Atom, Datum, Uuid, ValueError, shortened};

/// The columns of a row that the client follows.
pub type Row = BTreeMap<String, Datum>;

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The row's table.
    pub table: String,
    /// The row.
    pub row: Uuid,
    /// The kind of change.
    pub kind: DifferenceKind,
}

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The row is new.
    Insert,
    /// Columns have changed; these are their former values.
    Modify(Row),
    /// The row was deleted; these were its values.
    Delete(Row),
}

/// Why an update does not fit the cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The JSON is no update.
    #[error("an update of the database is not understood: {0}")]
    Form(String),
    /// The update names a table or a column that is not followed.
    #[error("an update of the database names {0}, which was not asked for")]
    NotFollowed(String),
    /// The update changes a row that does not exist, or inserts one that does.
    #[error("an update of the database {action} row {row} of table {table}, which {problem}")]
    Row {
        /// The action of the update.
        action: &'static str,
        /// The row.
        row: Uuid,
        /// The row's table.
        table: String,
        /// The contradiction.
        problem: &'static str,
    },
    /// A value does not fit the schema.
    #[error("column {column} of row {row} in table {table}: {source}")]
    Value {
        /// The table.
        table: String,
        /// The row.
        row: Uuid,
        /// The column.
        column: String,
        /// The error of the value.
        source: ValueError,
    },
    /// The database has more rows than allowed.
    #[error(
        "the database has more than {0} rows in the tables that are followed; delete rows that nothing needs"
    )]
    TooManyRows(usize),
    /// The rows take more memory than allowed.
    #[error("the rows that are followed take more than {0} bytes of memory; delete rows that nothing needs")]
    TooManyBytes(usize),
}

/// Rows of several tables, by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    tables: BTreeMap<String, BTreeMap<Uuid, Row>>,
    bytes: usize,
}

impl Cache {
    /// The rows of a table.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = (Uuid, &Row)> {
        self.tables.get(table).into_iter().flatten().map(|(id, row)| (*id, row))
    }

    /// A row.
    pub fn row(&self, table: &str, id: Uuid) -> Option<&Row> {
        self.tables.get(table)?.get(&id)
    }

    /// The number of rows in all tables.
    pub fn count(&self) -> usize {
        self.tables.values().map(BTreeMap::len).sum()
    }

    /// The approximate size of the rows in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Applies the `table-updates2` of a server.
    ///
    /// `followed` has the columns that the client monitors. On an error, a part of the update may have been applied.
    ///
    /// # Errors
    /// The update does not fit the schema or the rows, or takes more rows or memory than allowed.
    pub fn update(
        &mut self,
        json: &Value,
        followed: &Schema,
        limits: &Limits,
    ) -> Result<Vec<Difference>, UpdateError> {
        let mut differences = Vec::new();
        let mut count = self.count();
        for (table, rows) in object(json)? {
            let columns =
                followed.tables.get(table).ok_or_else(|| UpdateError::NotFollowed(shortened(table)))?;
            for (id, update) in object(rows)? {
                let row = id.parse().map_err(|error: ValueError| UpdateError::Form(error.to_string()))?;
                let place = RowUpdate { table, row, columns };
                let rows = self.tables.entry(table.clone()).or_default();
                let before = (rows.len(), rows.get(&row).map_or(0, bytes));
                let kind = place.update(rows, object(update)?)?;
                count = count + rows.len() - before.0;
                self.bytes = self.bytes + rows.get(&row).map_or(0, bytes) - before.1;
                if count > limits.rows {
                    return Err(UpdateError::TooManyRows(limits.rows));
                }
                if self.bytes > limits.cache_bytes {
                    return Err(UpdateError::TooManyBytes(limits.cache_bytes));
                }
                differences.push(Difference { table: table.clone(), row, kind });
            }
        }
        Ok(differences)
    }

    /// The changes that turn this cache into the other.
    pub fn differences(&self, other: &Cache) -> Vec<Difference> {
        let mut differences = Vec::new();
        for (table, rows) in &self.tables {
            for (&row, old) in rows {
                let kind = match other.row(table, row) {
                    None => DifferenceKind::Delete(old.clone()),
                    Some(new) if new == old => continue,
                    Some(new) => {
                        let changed = old.iter().filter(|(column, value)| new.get(*column) != Some(*value));
                        DifferenceKind::Modify(changed.map(|(c, v)| (c.clone(), v.clone())).collect())
                    }
                };
                differences.push(Difference { table: table.clone(), row, kind });
            }
        }
        for (table, rows) in &other.tables {
            for &row in rows.keys().filter(|row| self.row(table, **row).is_none()) {
                differences.push(Difference { table: table.clone(), row, kind: DifferenceKind::Insert });
            }
        }
        differences
    }
}

/// The row that an update is about.
struct RowUpdate<'a> {
    table: &'a str,
    row: Uuid,
    columns: &'a Columns,
}

impl RowUpdate<'_> {
    fn update(
        &self,
        rows: &mut BTreeMap<Uuid, Row>,
        update: &Map<String, Value>,
    ) -> Result<DifferenceKind, UpdateError> {
        let mut parts = update.iter();
        let (Some((action, values)), None) = (parts.next(), parts.next()) else {
            return Err(UpdateError::Form(format!("row {} has not exactly one change", self.row)));
        };
        match action.as_str() {
            "initial" | "insert" => {
                if rows.contains_key(&self.row) {
                    return Err(self.misfit("inserts", "exists"));
                }
                let defaults = self.columns.iter().map(|(name, kind)| (name.clone(), kind.default_value()));
                let mut row: Row = defaults.collect();
                for (column, json) in object(values)? {
                    let kind = self.column(column)?;
                    row.insert(column.clone(), self.read(column, json, |datum| kind.check(datum))?);
                }
                rows.insert(self.row, row);
                Ok(DifferenceKind::Insert)
            }
            "modify" => {
                let row = rows.get_mut(&self.row).ok_or_else(|| self.misfit("modifies", "does not exist"))?;
                let mut before = Row::new();
                for (column, json) in object(values)? {
                    let kind = self.column(column)?;
                    let old = row.get(column).cloned().unwrap_or_else(|| kind.default_value());
                    let new = self.read(column, json, |change| changed(kind, &old, change))?;
                    row.insert(column.clone(), new);
                    before.insert(column.clone(), old);
                }
                Ok(DifferenceKind::Modify(before))
            }
            "delete" => {
                let row = rows.remove(&self.row).ok_or_else(|| self.misfit("deletes", "does not exist"))?;
                Ok(DifferenceKind::Delete(row))
            }
            other => Err(UpdateError::Form(format!("{} is no change of a row", shortened(other)))),
        }
    }

    fn column(&self, name: &str) -> Result<&ColumnType, UpdateError> {
        let missing =
            || UpdateError::NotFollowed(format!("column {} of table {}", shortened(name), self.table));
        self.columns.get(name).ok_or_else(missing)
    }

    fn read(
        &self,
        column: &str,
        json: &Value,
        check: impl FnOnce(Datum) -> Result<Datum, ValueError>,
    ) -> Result<Datum, UpdateError> {
        Datum::from_json(json).and_then(check).map_err(|source| UpdateError::Value {
            table: self.table.to_owned(),
            row: self.row,
            column: column.to_owned(),
            source,
        })
    }

    fn misfit(&self, action: &'static str, problem: &'static str) -> UpdateError {
        UpdateError::Row { action, row: self.row, table: self.table.to_owned(), problem }
    }
}

/// The value after a `modify`. The server sends, for a column of at most one element, the new value; for a set, the
/// elements that only one of the two values has; for a map, the pairs that differ, with the new value, or with the old
/// one if the pair was removed.
fn changed(kind: &ColumnType, old: &Datum, change: Datum) -> Result<Datum, ValueError> {
    if kind.max == 1 {
        return kind.check(change);
    }
    let new = match (old.clone(), kind.check_atoms(change)?) {
        (Datum::Set(old), Datum::Set(change)) => Datum::Set(&old ^ &change),
        (Datum::Map(mut map), Datum::Map(change)) => {
            for (key, value) in change {
                if map.get(&key) == Some(&value) {
                    map.remove(&key);
                } else {
                    map.insert(key, value);
                }
            }
            Datum::Map(map)
        }
        (_, change) => change,
    };
    kind.check(new)
}

fn object(json: &Value) -> Result<&Map<String, Value>, UpdateError> {
    json.as_object()
        .ok_or_else(|| UpdateError::Form(format!("{} is no object", shortened(&json.to_string()))))
}

/// About how many bytes of memory a row takes.
fn bytes(row: &Row) -> usize {
    const EACH: usize = 64;
    let atom = |atom: &Atom| {
        EACH + if let Atom::String(text) | Atom::NamedUuid(text) = atom { text.len() } else { 0 }
    };
    let column = |(name, value): (&String, &Datum)| {
        let value: usize = match value {
            Datum::Set(set) => set.iter().map(atom).sum(),
            Datum::Map(map) => map.iter().map(|(key, value)| atom(key) + atom(value)).sum(),
        };
        EACH + name.len() + value
    };
    EACH + row.iter().map(column).sum::<usize>()
}
