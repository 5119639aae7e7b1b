//! The published JSON Schema describes the files that the program writes, and nothing else.

use measure::example;
use peers::schema::faults_of;
use serde_json::{Value, json};

#[test]
fn the_files_that_the_program_writes_fit_the_schema() {
    for results in [
        example::results(),
        example::only_host(),
        example::empty(),
        measure::network::example::with_network(),
    ] {
        let faults = faults_of(&serde_json::to_value(results).unwrap());
        assert!(faults.is_empty(), "{:#?}", &faults[..faults.len().min(10)]);
    }
}

#[test]
fn a_file_that_is_not_one_does_not_fit() {
    let mut few = example::results();
    few.trials.truncate(3);
    let good = serde_json::to_value(few).unwrap();
    assert!(faults_of(&good).is_empty());
    let broken = |pointer: &str, value: Value| {
        let mut file = good.clone();
        *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        faults_of(&file)
    };
    for (pointer, value) in [
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
    assert_eq!(faults_of(&more), ["tautline-compare/1.plan: mood is not in the schema"]);
}
