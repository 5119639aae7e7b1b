//! The part of a database's schema that a client needs: tables, columns and their types (RFC 7047, section 3.2).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::value::{Atom, Datum, Real, Uuid, ValueError, shortened};

/// Why a schema cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema of the database is not understood at {place}: {problem}")]
pub struct SchemaError {
    place: String,
    problem: &'static str,
}

/// The type of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomType {
    /// A number without a fraction.
    Integer,
    /// A number with a fraction.
    Real,
    /// True or false.
    Boolean,
    /// A text.
    String,
    /// A row.
    Uuid,
}

impl AtomType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "integer" => AtomType::Integer,
            "real" => AtomType::Real,
            "boolean" => AtomType::Boolean,
            "string" => AtomType::String,
            "uuid" => AtomType::Uuid,
            _ => return None,
        })
    }

    fn words(self) -> &'static str {
        match self {
            AtomType::Integer => "an integer",
            AtomType::Real => "a real number",
            AtomType::Boolean => "true or false",
            AtomType::String => "a string",
            AtomType::Uuid => "a uuid",
        }
    }

    fn zero(self) -> Atom {
        match self {
            AtomType::Integer => Atom::Integer(0),
            AtomType::Real => Atom::Real(Real(0.0)),
            AtomType::Boolean => Atom::Boolean(false),
            AtomType::String => Atom::String(String::new()),
            AtomType::Uuid => Atom::Uuid(Uuid::default()),
        }
    }

    fn check(self, atom: Atom) -> Result<Atom, ValueError> {
        match (self, atom) {
            (AtomType::Real, Atom::Integer(integer)) => Ok(Atom::Real(Real(integer as f64))),
            (AtomType::Integer, atom @ Atom::Integer(_))
            | (AtomType::Real, atom @ Atom::Real(_))
            | (AtomType::Boolean, atom @ Atom::Boolean(_))
            | (AtomType::String, atom @ Atom::String(_))
            | (AtomType::Uuid, atom @ Atom::Uuid(_)) => Ok(atom),
            (_, atom) => Err(ValueError::Type {
                found: shortened(&atom.to_json().to_string()),
                expected: self.words(),
            }),
        }
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The type of a set's elements, or of a map's keys.
    pub key: AtomType,
    /// The type of a map's values; `None` for a set.
    pub value: Option<AtomType>,
    /// The least number of elements.
    pub min: usize,
    /// The highest number of elements; `usize::MAX` for no limit.
    pub max: usize,
}

impl ColumnType {
    fn parse(json: &Value) -> Result<Self, &'static str> {
        if let Value::String(name) = json {
            let key = AtomType::parse(name).ok_or("unknown type")?;
            return Ok(ColumnType { key, value: None, min: 1, max: 1 });
        }
        let base = |json: &Value| {
            let name = json.as_str().or_else(|| json.get("type")?.as_str());
            name.and_then(AtomType::parse).ok_or("unknown type")
        };
        let count = |name: &str| match json.get(name) {
            None => Ok(1),
            Some(Value::String(text)) if text == "unlimited" => Ok(usize::MAX),
            Some(number) => {
                let number = number.as_u64().ok_or("min or max is no number")?;
                usize::try_from(number).map_err(|_| "min or max is too large")
            }
        };
        let (min, max) = (count("min")?, count("max")?);
        if min > 1 || max < 1 {
            return Err("min or max is out of range");
        }
        Ok(ColumnType {
            key: base(json.get("key").ok_or("no key")?)?,
            value: json.get("value").map(base).transpose()?,
            min,
            max,
        })
    }

    /// The value of a column that is not set in a row.
    pub fn default_value(&self) -> Datum {
        match (self.value, self.min) {
            (None, 0) => Datum::empty(),
            (None, _) => self.key.zero().into(),
            (Some(_), 0) => Datum::Map(BTreeMap::new()),
            (Some(value), _) => Datum::Map([(self.key.zero(), value.zero())].into()),
        }
    }

    /// The value, if it is of this type.
    ///
    /// # Errors
    /// An atom is of another type, or the number of elements is not allowed.
    pub fn check(&self, datum: Datum) -> Result<Datum, ValueError> {
        let datum = self.check_atoms(datum)?;
        let found = match &datum {
            Datum::Set(set) => set.len(),
            Datum::Map(map) => map.len(),
        };
        if found < self.min || found > self.max {
            return Err(ValueError::Count { found, min: self.min, max: self.max });
        }
        Ok(datum)
    }

    /// The value, if its atoms are of this type.
    pub(crate) fn check_atoms(&self, datum: Datum) -> Result<Datum, ValueError> {
        match (datum, self.value) {
            (Datum::Set(set), None) => {
                let checked: Result<BTreeSet<Atom>, _> =
                    set.into_iter().map(|atom| self.key.check(atom)).collect();
                checked.map(Datum::Set)
            }
            (Datum::Map(map), Some(value)) => {
                let pair = |(key, atom)| Ok((self.key.check(key)?, value.check(atom)?));
                map.into_iter().map(pair).collect::<Result<_, _>>().map(Datum::Map)
            }
            (datum, value) => {
                let expected = if value.is_some() { "a map" } else { "a set or a single value" };
                Err(ValueError::Type { found: shortened(&datum.to_json().to_string()), expected })
            }
        }
    }
}

/// The columns of a table.
pub type Columns = BTreeMap<String, ColumnType>;

/// Tables, their columns and the columns' types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// The columns by table.
    pub tables: BTreeMap<String, Columns>,
}

impl Schema {
    /// Reads a server's answer to `get_schema`.
    ///
    /// # Errors
    /// The JSON is no schema.
    pub fn from_json(json: &Value) -> Result<Self, SchemaError> {
        let fail = |place: &str, problem| SchemaError { place: shortened(place), problem };
        let tables = json.get("tables").and_then(Value::as_object);
        let mut schema = Schema::default();
        for (table, description) in tables.ok_or_else(|| fail("the top", "no tables"))? {
            let columns = description.get("columns").and_then(Value::as_object);
            let mut types = Columns::new();
            for (column, description) in columns.ok_or_else(|| fail(table, "no columns"))? {
                let place = || format!("{table}.{column}");
                let json = description.get("type").ok_or_else(|| fail(&place(), "no type"))?;
                let column_type = ColumnType::parse(json).map_err(|problem| fail(&place(), problem))?;
                types.insert(column.clone(), column_type);
            }
            schema.tables.insert(table.clone(), types);
        }
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn column(json: &Value) -> Result<ColumnType, &'static str> {
        ColumnType::parse(json)
    }

    #[test]
    fn a_value_fits_its_type_or_is_refused_in_words() {
        let optional = column(&json!({"key": "uuid", "min": 0})).unwrap();
        let map = column(&json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"})).unwrap();
        let real = column(&json!("real")).unwrap();
        let tags =
            column(&json!({"key": {"type": "integer", "maxInteger": 4095}, "min": 0, "max": 2})).unwrap();
        let read = |kind: ColumnType, json: Value| {
            kind.check(Datum::from_json(&json).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(read(real, json!(2)).unwrap(), Datum::from(Atom::Real(Real(2.0))));
        assert!(read(optional, json!(["set", []])).unwrap().is_empty());
        for (kind, json, said) in [
            (optional, json!("a"), "\"a\" is not a uuid"),
            (optional, json!(["named-uuid", "a"]), "is not a uuid"),
            (map, json!(["set", []]), "is not a map"),
            (map, json!(["map", [["a", 1]]]), "1 is not a string"),
            (tags, json!(["map", []]), "is not a set"),
            (tags, json!(1e300), "is not an integer"),
            (tags, json!(["set", [1, 2, 3]]), "3 elements, where the schema allows 0 to 2"),
            (real, json!(["set", []]), "0 elements"),
        ] {
            let error = read(kind, json.clone()).unwrap_err();
            assert!(error.contains(said), "{json}: {error}");
        }
        assert_eq!(map.default_value(), Datum::Map(BTreeMap::new()));
        assert_eq!(tags.default_value(), Datum::empty());
        assert_eq!(real.check(real.default_value()), Ok(real.default_value()));
    }

    #[test]
    fn what_is_no_schema_is_refused_in_words() {
        for (json, said) in [
            (json!(null), "no tables"),
            (json!({"tables": {"T": 1}}), "at T: no columns"),
            (json!({"tables": {"T": {"columns": {"c": {}}}}}), "at T.c: no type"),
            (json!({"tables": {"T": {"columns": {"c": {"type": "color"}}}}}), "unknown type"),
            (json!({"tables": {"T": {"columns": {"c": {"type": {"key": 1}}}}}}), "unknown type"),
            (json!({"tables": {"T": {"columns": {"c": {"type": {"key": "uuid", "min": -1}}}}}}), "no number"),
            (
                json!({"tables": {"T": {"columns": {"c": {"type": {"key": "uuid", "max": 0}}}}}}),
                "out of range",
            ),
        ] {
            let error = Schema::from_json(&json).unwrap_err().to_string();
            assert!(error.contains(said), "{json}: {error}");
        }
    }
}
