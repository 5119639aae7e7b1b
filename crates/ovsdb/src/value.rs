//! Values of columns and their JSON notation (RFC 7047, section 5.1).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

/// Why a value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The JSON is not the notation of a value.
    #[error("{0} is not the notation of a value")]
    Notation(String),
    /// A set has an element twice, or a map has a key twice.
    #[error("{0} occurs twice")]
    Twice(String),
    /// The value is not of the column's type.
    #[error("{found} is not {expected}")]
    Type {
        /// The atom, shortened.
        found: String,
        /// The type in the schema.
        expected: &'static str,
    },
    /// The value has more or fewer elements than the schema allows.
    #[error("{found} elements, where the schema allows {min} to {max}")]
    Count {
        /// Elements in the value.
        found: usize,
        /// The least number that the schema allows.
        min: usize,
        /// The highest number that the schema allows.
        max: usize,
    },
}

/// The identity of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub u128);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Uuid(all) = *self;
        let (low, mid, high) = ((all >> 96) as u32, (all >> 80) as u16, (all >> 64) as u16);
        write!(f, "{low:08x}-{mid:04x}-{high:04x}-{:04x}-{:012x}", (all >> 48) as u16, all & ((1 << 48) - 1))
    }
}

impl FromStr for Uuid {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let not = || ValueError::Notation(shortened(&format!("uuid {text:?}")));
        let groups: Vec<&str> = text.split('-').collect();
        if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
            return Err(not());
        }
        let digits = groups.concat();
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hexadecimal.then(|| u128::from_str_radix(&digits, 16).ok()).flatten().map(Uuid).ok_or_else(not)
    }
}

/// A number with a fraction that, unlike `f64`, has a total order.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f64);

impl Ord for Real {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Real {}

/// A single value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Atom {
    /// A number without a fraction.
    Integer(i64),
    /// A number with a fraction.
    Real(Real),
    /// True or false.
    Boolean(bool),
    /// A text.
    String(String),
    /// A row.
    Uuid(Uuid),
    /// The name of a row that the same transaction inserts.
    NamedUuid(String),
}

impl Atom {
    /// Reads the notation of an atom.
    ///
    /// # Errors
    /// The JSON is no atom.
    pub fn from_json(json: &Value) -> Result<Self, ValueError> {
        let not = || ValueError::Notation(shortened(&json.to_string()));
        match json {
            Value::Bool(value) => Ok(Atom::Boolean(*value)),
            Value::String(text) => Ok(Atom::String(text.clone())),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Ok(Atom::Integer(integer)),
                (None, Some(real)) => Ok(Atom::Real(Real(real))),
                (None, None) => Err(not()),
            },
            Value::Array(pair) => match &pair[..] {
                [Value::String(tag), Value::String(id)] if tag == "uuid" => id.parse().map(Atom::Uuid),
                [Value::String(tag), Value::String(id)] if tag == "named-uuid" => {
                    Ok(Atom::NamedUuid(id.clone()))
                }
                _ => Err(not()),
            },
            Value::Null | Value::Object(_) => Err(not()),
        }
    }

    /// The atom's notation.
    pub fn to_json(&self) -> Value {
        match self {
            Atom::Integer(integer) => json!(integer),
            Atom::Real(Real(real)) => json!(real),
            Atom::Boolean(value) => json!(value),
            Atom::String(text) => json!(text),
            Atom::Uuid(id) => json!(["uuid", id.to_string()]),
            Atom::NamedUuid(name) => json!(["named-uuid", name]),
        }
    }
}

/// The value of a column. A single atom is a set with one element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Atoms.
    Set(BTreeSet<Atom>),
    /// A map from atoms to atoms.
    Map(BTreeMap<Atom, Atom>),
}

impl Datum {
    /// An empty set, which is the value of an optional column that is not set.
    pub fn empty() -> Self {
        Datum::Set(BTreeSet::new())
    }

    /// A map from texts to texts.
    pub fn texts<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let atom = |(key, value): (K, V)| (Atom::String(key.into()), Atom::String(value.into()));
        Datum::Map(pairs.into_iter().map(atom).collect())
    }

    /// Reads the notation of a value.
    ///
    /// # Errors
    /// The JSON is no value, or an element or key occurs twice.
    pub fn from_json(json: &Value) -> Result<Self, ValueError> {
        let Value::Array(pair) = json else { return Atom::from_json(json).map(Datum::from) };
        let [Value::String(tag), Value::Array(elements)] = &pair[..] else {
            return Atom::from_json(json).map(Datum::from);
        };
        match tag.as_str() {
            "set" => {
                let mut set = BTreeSet::new();
                for element in elements {
                    let atom = Atom::from_json(element)?;
                    if !set.insert(atom) {
                        return Err(ValueError::Twice(shortened(&element.to_string())));
                    }
                }
                Ok(Datum::Set(set))
            }
            "map" => {
                let mut map = BTreeMap::new();
                for element in elements {
                    let Some([key, value]) = element.as_array().map(Vec::as_slice) else {
                        return Err(ValueError::Notation(shortened(&element.to_string())));
                    };
                    if map.insert(Atom::from_json(key)?, Atom::from_json(value)?).is_some() {
                        return Err(ValueError::Twice(shortened(&key.to_string())));
                    }
                }
                Ok(Datum::Map(map))
            }
            _ => Err(ValueError::Notation(shortened(&json.to_string()))),
        }
    }

    /// The value's notation.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Set(set) => match set.first() {
                Some(only) if set.len() == 1 => only.to_json(),
                _ => json!(["set", set.iter().map(Atom::to_json).collect::<Vec<_>>()]),
            },
            Datum::Map(map) => {
                let pairs: Vec<Value> =
                    map.iter().map(|(key, value)| json!([key.to_json(), value.to_json()])).collect();
                json!(["map", pairs])
            }
        }
    }

    /// The atom of a set with one element.
    pub fn atom(&self) -> Option<&Atom> {
        match self {
            Datum::Set(set) if set.len() == 1 => set.first(),
            _ => None,
        }
    }

    /// The only atom, if it is a text.
    pub fn text(&self) -> Option<&str> {
        match self.atom() {
            Some(Atom::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The only atom, if it is a number without a fraction.
    pub fn integer(&self) -> Option<i64> {
        match self.atom() {
            Some(Atom::Integer(integer)) => Some(*integer),
            _ => None,
        }
    }

    /// The only atom, if it is true or false.
    pub fn boolean(&self) -> Option<bool> {
        match self.atom() {
            Some(Atom::Boolean(value)) => Some(*value),
            _ => None,
        }
    }

    /// The integers of a set.
    pub fn integers(&self) -> impl Iterator<Item = i64> + '_ {
        let set = if let Datum::Set(set) = self { Some(set) } else { None };
        let integer = |atom: &Atom| if let Atom::Integer(integer) = atom { Some(*integer) } else { None };
        set.into_iter().flatten().filter_map(integer)
    }

    /// The row ids of a set.
    pub fn uuids(&self) -> impl Iterator<Item = Uuid> + '_ {
        let set = if let Datum::Set(set) = self { Some(set) } else { None };
        set.into_iter().flatten().filter_map(|atom| if let Atom::Uuid(id) = atom { Some(*id) } else { None })
    }

    /// The value of a key in a map of texts.
    pub fn get(&self, key: &str) -> Option<&str> {
        let Datum::Map(map) = self else { return None };
        match map.get(&Atom::String(key.to_owned())) {
            Some(Atom::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether the value has no elements.
    pub fn is_empty(&self) -> bool {
        match self {
            Datum::Set(set) => set.is_empty(),
            Datum::Map(map) => map.is_empty(),
        }
    }
}

impl From<Atom> for Datum {
    fn from(atom: Atom) -> Self {
        Datum::Set([atom].into())
    }
}

impl From<&str> for Datum {
    fn from(text: &str) -> Self {
        Atom::String(text.to_owned()).into()
    }
}

impl From<i64> for Datum {
    fn from(integer: i64) -> Self {
        Atom::Integer(integer).into()
    }
}

impl From<bool> for Datum {
    fn from(value: bool) -> Self {
        Atom::Boolean(value).into()
    }
}

impl From<Uuid> for Datum {
    fn from(id: Uuid) -> Self {
        Atom::Uuid(id).into()
    }
}

/// The text, shortened for an error message, because the server chooses its length.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "6297838e-076d-47e1-b2b1-004c2946bac8";

    #[test]
    fn values_read_back() {
        for value in [
            json!(7),
            json!(-0.5),
            json!(true),
            json!("text"),
            json!(["uuid", ROW]),
            json!(["named-uuid", "row1"]),
            json!(["set", []]),
            json!(["set", [1, 2]]),
            json!(["map", [["a", "b"], ["c", "d"]]]),
        ] {
            assert_eq!(Datum::from_json(&value).unwrap().to_json(), value);
        }
        assert_eq!(Datum::from_json(&json!(["set", [5]])).unwrap().integer(), Some(5));
        assert_eq!(ROW.parse::<Uuid>().unwrap().to_string(), ROW);
    }

    #[test]
    fn what_is_no_value_is_refused_in_words() {
        for (value, said) in [
            (json!(null), "null is not the notation"),
            (json!({"a": 1}), "not the notation"),
            (json!([]), "not the notation"),
            (json!(["set", 1]), "not the notation"),
            (json!(["bag", [1]]), "not the notation"),
            (json!(["set", [["set", [1]]]]), "not the notation"),
            (json!(["set", [1, 1]]), "1 occurs twice"),
            (json!(["map", [[1, 2, 3]]]), "not the notation"),
            (json!(["map", [["a", 1], ["a", 2]]]), "\"a\" occurs twice"),
            (json!(["uuid", "6297838e"]), "not the notation"),
            (json!(["uuid", "+297838e-076d-47e1-b2b1-004c2946bac8"]), "not the notation"),
            (json!(["set", ["x".repeat(5000), "x".repeat(5000)]]), "… occurs twice"),
        ] {
            let error = Datum::from_json(&value).unwrap_err().to_string();
            assert!(error.contains(said) && error.len() < 300, "{value}: {error}");
        }
    }
}
