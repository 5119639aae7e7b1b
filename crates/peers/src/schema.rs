//! Compares documents with the JSON Schemas that are published for them.
//!
//! The checker knows only the keywords that the schemas use: an unknown keyword fails the test. The checker is
//! stricter than the schemas in one point: a property that the schema does not name is a fault, so that every new
//! field of a document must be added to the schema.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// All faults of a document, according to the schema that it names.
///
/// # Panics
/// Panics if the document names no schema, if `crates/report/schema` has no such file, or if the schema has an
/// unknown keyword.
pub fn faults_of(document: &Value) -> Vec<String> {
    let name = document["schema"].as_str().unwrap_or_else(|| panic!("no schema in {document:.200}"));
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/schema").join(name.replace('/', "-") + ".json");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let schema = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    faults(&schema, &schema, document, name)
}

/// Fails the test if a document does not fit the schema that it names.
///
/// # Panics
/// Panics if the document does not fit, or for the reasons of [`faults_of`].
#[track_caller]
pub fn fits(document: &Value) {
    let faults = faults_of(document);
    assert!(faults.is_empty(), "{:#?} in {document:#}", &faults[..faults.len().min(10)]);
}

/// All faults of `value` against `schema`, each with its place.
fn faults(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fault = |what: String| found.push(format!("{place}: {what}"));
    let mut deeper = Vec::new();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let pointer = rule.as_str().and_then(|r| r.strip_prefix('#')).expect("a local reference");
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not there"));
                deeper.extend(faults(root, target, value, place));
            }
            "type" => {
                let types = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !types.iter().any(|one| has_type(value, one.as_str().unwrap())) {
                    fault(format!("{value:.40} is not of type {rule}"));
                }
            }
            "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    deeper.extend(faults(root, rule, inner, &format!("{place}.{name}")));
                }
            }
            "const" if value != rule => fault(format!("{value:.40} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                fault(format!("{value:.40} is none of {rule}"))
            }
            "minimum" if value.as_f64().is_some_and(|v| v < rule.as_f64().unwrap()) => {
                fault(format!("{value} is below {rule}"));
            }
            "minItems" if value.as_array().is_some_and(|v| (v.len() as u64) < rule.as_u64().unwrap()) => {
                fault("too few items".into());
            }
            "maxItems" if value.as_array().is_some_and(|v| v.len() as u64 > rule.as_u64().unwrap()) => {
                fault("too many items".into());
            }
            "const" | "enum" | "minimum" | "minItems" | "maxItems" => {}
            "required" => {
                for name in rule.as_array().unwrap().iter().filter_map(Value::as_str) {
                    if value.is_object() && value.get(name).is_none() {
                        fault(format!("lacks {name}"));
                    }
                }
            }
            "properties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(schema) => {
                            deeper.extend(faults(root, schema, inner, &format!("{place}.{name}")))
                        }
                        None => fault(format!("{name} is not in the schema")),
                    }
                }
            }
            "items" => {
                for (number, inner) in value.as_array().into_iter().flatten().enumerate() {
                    deeper.extend(faults(root, rule, inner, &format!("{place}[{number}]")));
                }
            }
            "oneOf" => {
                let all = rule.as_array().unwrap();
                let fitting = all.iter().filter(|one| faults(root, one, value, place).is_empty()).count();
                if fitting != 1 {
                    fault(format!("{value:.40} fits {fitting} of the choices, not one"));
                }
            }
            unknown => panic!("the checker does not know the keyword {unknown}"),
        }
    }
    found.extend(deeper);
    found
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        unknown => panic!("the checker does not know the type {unknown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_does_not_fit_is_named() {
        let drop = |frames: Value| {
            let one =
                json!({ "port": "a", "pair": 0, "from_guest": true, "reason": "too long", "frames": frames });
            faults_of(&json!({ "schema": "tautline-ctl/1", "drops": [one] }))
        };
        assert_eq!(drop(json!(3)), Vec::<String>::new());
        for wrong in [json!(-3), json!("three"), json!(null)] {
            assert!(!drop(wrong).is_empty());
        }
        assert!(!faults_of(&json!({ "schema": "tautline-ctl/1", "drops": [], "mood": "good" })).is_empty());
        let detached = json!({ "schema": "tautline-vm-detach/1", "process": 1, "mood": "good" });
        let faults = faults_of(&detached);
        assert!(faults.contains(&"tautline-vm-detach/1: mood is not in the schema".to_owned()), "{faults:?}");
        assert!(faults.contains(&"tautline-vm-detach/1: lacks journal".to_owned()), "{faults:?}");
    }
}
