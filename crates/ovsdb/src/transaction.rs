//! Transactions (RFC 7047, section 5.2).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::cache::Row;
use crate::value::{Datum, Uuid, ValueError, shortened};

/// The comparison of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `includes`
    Includes,
    /// `excludes`
    Excludes,
}

impl Function {
    fn notation(self) -> &'static str {
        match self {
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        }
    }
}

/// How a mutation changes a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutator {
    /// Adds a number.
    Add,
    /// Adds elements.
    Insert,
    /// Removes elements.
    Delete,
}

impl Mutator {
    fn notation(self) -> &'static str {
        match self {
            Mutator::Add => "+=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        }
    }
}

/// Operations of which the server carries out all or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transaction {
    operations: Vec<Value>,
}

impl Transaction {
    /// A transaction without operations.
    pub fn new() -> Self {
        Transaction::default()
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Inserts a row. `name` stands for the row in this transaction, as an [`crate::Atom::NamedUuid`].
    pub fn insert(&mut self, table: &str, row: &Row, name: Option<&str>) {
        let mut operation = json!({"op": "insert", "table": table, "row": notation(row)});
        if let Some(name) = name {
            operation["uuid-name"] = json!(name);
        }
        self.operations.push(operation);
    }

    /// Sets columns of a row.
    pub fn update(&mut self, table: &str, row: Uuid, columns: &Row) {
        let columns = notation(columns);
        self.operations.push(json!({"op": "update", "table": table, "where": is_row(row), "row": columns}));
    }

    /// Changes a column of a row.
    pub fn mutate(&mut self, table: &str, row: Uuid, column: &str, mutator: Mutator, value: &Datum) {
        let mutation = json!([column, mutator.notation(), value.to_json()]);
        self.operations
            .push(json!({"op": "mutate", "table": table, "where": is_row(row), "mutations": [mutation]}));
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: &str, row: Uuid) {
        self.operations.push(json!({"op": "delete", "table": table, "where": is_row(row)}));
    }

    /// Reads the columns of all rows that meet a condition.
    pub fn select(&mut self, table: &str, column: &str, function: Function, value: &Datum, columns: &[&str]) {
        let condition = json!([[column, function.notation(), value.to_json()]]);
        self.operations.push(json!({"op": "select", "table": table, "where": condition, "columns": columns}));
    }

    /// Makes the transaction fail unless these columns of a row have these values now.
    pub fn wait(&mut self, table: &str, row: Uuid, columns: &Row) {
        let names: Vec<&String> = columns.keys().collect();
        self.operations.push(json!({
            "op": "wait", "table": table, "where": is_row(row), "columns": names, "until": "==",
            "rows": [notation(columns)], "timeout": 0,
        }));
    }

    /// Adds a comment to the log of the database.
    pub fn comment(&mut self, words: &str) {
        self.operations.push(json!({"op": "comment", "comment": words}));
    }

    /// Makes the transaction fail unless this client owns the lock.
    pub fn assert_lock(&mut self, lock: &str) {
        self.operations.push(json!({"op": "assert", "lock": lock}));
    }

    /// The arguments of the request.
    pub(crate) fn params(self, database: &str) -> Value {
        let mut params = vec![json!(database)];
        params.extend(self.operations);
        Value::Array(params)
    }
}

fn is_row(row: Uuid) -> Value {
    json!([["_uuid", "==", ["uuid", row.to_string()]]])
}

fn notation(row: &Row) -> Map<String, Value> {
    row.iter().map(|(column, value)| (column.clone(), value.to_json())).collect()
}

/// The result of an operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationResult {
    /// The number of changed rows.
    pub count: Option<u64>,
    /// The id of the inserted row.
    pub inserted: Option<Uuid>,
    /// The rows that were read.
    pub rows: Vec<Row>,
}

impl OperationResult {
    /// Reads a server's answer to a transaction. `Err` inside is the server's error.
    pub(crate) fn all(answer: &Value) -> Result<Result<Vec<Self>, String>, ValueError> {
        let not = |json: &Value| ValueError::Notation(shortened(&json.to_string()));
        let mut results = Vec::new();
        for json in answer.as_array().ok_or_else(|| not(answer))? {
            // The server answers `null` for operations behind a failed one.
            if let Some(error) = json.get("error").and_then(Value::as_str) {
                let details = json.get("details").and_then(Value::as_str).unwrap_or_default();
                return Ok(Err(format!("{}: {}", shortened(error), details)));
            }
            let inserted = json.get("uuid").map(Datum::from_json).transpose()?;
            let rows = json.get("rows").and_then(Value::as_array);
            results.push(OperationResult {
                count: json.get("count").and_then(Value::as_u64),
                inserted: inserted.and_then(|id| id.uuids().next()),
                rows: rows.into_iter().flatten().map(read_row).collect::<Result<_, _>>()?,
            });
        }
        Ok(Ok(results))
    }
}

fn read_row(json: &Value) -> Result<Row, ValueError> {
    let columns = json.as_object().ok_or_else(|| ValueError::Notation(shortened(&json.to_string())))?;
    let read = |(column, json): (&String, &Value)| Ok((column.clone(), Datum::from_json(json)?));
    columns.iter().map(read).collect::<Result<BTreeMap<_, _>, _>>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Atom;

    #[test]
    fn operations_have_the_notation_of_the_rfc() {
        let row = Uuid(7);
        let columns: Row = [("cur_cfg".to_owned(), Datum::from(3))].into();
        let mut transaction = Transaction::new();
        transaction.assert_lock("l");
        transaction.insert("T", &columns, Some("new"));
        transaction.update("T", row, &columns);
        transaction.mutate("T", row, "s", Mutator::Insert, &Atom::NamedUuid("new".to_owned()).into());
        transaction.select("T", "name", Function::Equal, &"a".into(), &["name"]);
        transaction.wait("T", row, &columns);
        transaction.delete("T", row);
        transaction.comment("words");
        let is_row = json!([["_uuid", "==", ["uuid", "00000000-0000-0000-0000-000000000007"]]]);
        let expected = json!([
            "D",
            {"op": "assert", "lock": "l"},
            {"op": "insert", "table": "T", "row": {"cur_cfg": 3}, "uuid-name": "new"},
            {"op": "update", "table": "T", "where": is_row, "row": {"cur_cfg": 3}},
            {"op": "mutate", "table": "T", "where": is_row, "mutations": [["s", "insert", ["named-uuid", "new"]]]},
            {"op": "select", "table": "T", "where": [["name", "==", "a"]], "columns": ["name"]},
            {"op": "wait", "table": "T", "where": is_row, "columns": ["cur_cfg"], "until": "==",
             "rows": [{"cur_cfg": 3}], "timeout": 0},
            {"op": "delete", "table": "T", "where": is_row},
            {"op": "comment", "comment": "words"},
        ]);
        assert_eq!(transaction.params("D"), expected);
    }

    #[test]
    fn results_are_read_and_errors_are_the_servers_words() {
        let id = "00000000-0000-0000-0000-000000000007";
        let answer = json!([{"count": 1}, {"uuid": ["uuid", id]}, {"rows": [{"name": "a"}]}, {}]);
        let results = OperationResult::all(&answer).unwrap().unwrap();
        assert_eq!((results[0].count, results[1].inserted, results.len()), (Some(1), Some(Uuid(7)), 4));
        assert_eq!(results[2].rows[0]["name"].text(), Some("a"));
        let answer = json!([{"count": 1}, {"error": "not owner", "details": "lock l"}, null]);
        assert_eq!(OperationResult::all(&answer).unwrap(), Err("not owner: lock l".to_owned()));
        for answer in [json!({}), json!([{"uuid": 1.0e5, "rows": [1]}]), json!([{"uuid": {}}])] {
            assert!(OperationResult::all(&answer).is_err(), "{answer}");
        }
    }
}
