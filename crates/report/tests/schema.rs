//! The published JSON Schema describes the files that the program writes, and nothing else.
//!
//! The checker knows the keywords that the schema uses and no others: a keyword it does not know fails the
//! test instead of passing unread. It is stricter than the schema in one thing: a property that the schema
//! does not name is a fault, so that no field can be added to the file and forgotten here.

use measure::example;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../schema/tautline-compare-1.json");

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

fn check(file: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    faults(&schema, &schema, file, "file")
}

#[test]
fn the_files_that_the_program_writes_fit_the_schema() {
    for results in [
        example::results(),
        example::only_host(),
        example::empty(),
        measure::network::example::with_network(),
    ] {
        let faults = check(&serde_json::to_value(results).unwrap());
        assert!(faults.is_empty(), "{:#?}", &faults[..faults.len().min(10)]);
    }
}

#[test]
fn a_file_that_is_not_one_does_not_fit() {
    let mut few = example::results();
    few.trials.truncate(3);
    let good = serde_json::to_value(few).unwrap();
    assert!(check(&good).is_empty());
    let broken = |pointer: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        check(&file)
    };
    for (pointer, value) in [
        ("/schema", json!("tautline-compare/2")),
        ("/complete", json!("yes")),
        ("/host/memory_bytes", json!(-1)),
        ("/environments/0/kind", json!("zone")),
        ("/environments/1/facts/0", json!(["alone"])),
        ("/metrics/0/direction", json!("sideways")),
        ("/trials/0/verdict", json!({ "perhaps": "so" })),
        ("/trials/0/outcome", json!({})),
        ("/trials/0/outcome/samples/0", json!("fast")),
        ("/absences/0/reason", json!({ "tried": "a", "answer": "b" })),
        ("/plan", json!({ "quick": true })),
    ] {
        assert!(!broken(pointer, value).is_empty(), "{pointer} passed");
    }
    let mut more = good.clone();
    more["plan"]["mood"] = json!("good");
    assert_eq!(check(&more), ["file.plan: mood is not in the schema"]);
}
