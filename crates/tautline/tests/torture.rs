//! `tautline torture` at our own switch with a neighbour, and at a back-end that cannot stand it.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::process::{Command, Stdio};

use common::{Run, nothing_left, wait_until};
use linux::Child;
use serde_json::Value;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn our_switch_serves_on_and_a_neighbour_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
    command.arg("switch").stdout(Stdio::null()).stderr(Stdio::null());
    for name in ["victim", "a", "b"] {
        command.args(["--port", &format!("{name}=vhost-user:{}", path(name))]);
    }
    let _switch = Child::spawn(&mut command).unwrap();
    assert!(wait_until(|| ["victim", "a", "b"].iter().all(|name| folder.path().join(name).exists())));
    let run = Run::new(&["torture", &format!("vhost-user:{}", path("victim")), "--cases", "10", "--quiet"])
        .args(&["--beside", &format!("{},{}", path("a"), path("b")), "--format", "json"])
        .finish();
    assert_eq!(run.code, Some(0), "{run}");
    let results: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(results["schema"], "tautline-torture/1");
    let families = results["families"].as_array().unwrap();
    assert_eq!(families.len(), 9);
    for family in families {
        assert_eq!(family["findings"].as_array().unwrap().len(), 0, "{family}");
        assert_eq!(number(&family["cases"]), 10, "{family}");
    }
    // What is hostile is refused: most of these cannot be kept.
    for name in ["order", "bytes", "descriptors", "memory"] {
        let family = families.iter().find(|family| family["family"] == name).unwrap();
        assert!(number(&family["closed"]) > 1, "{family}");
    }
    let rings = families.iter().map(|family| number(&family["ring_states"])).sum::<u64>();
    assert!(rings > 2 * 10 * 8, "{rings}");
    let beside = &results["beside"];
    assert!(number(&beside["sent"]) > 100, "{beside}");
    assert_eq!(beside["sent"], beside["received"], "{beside}");
}

/// A program that listens, and ends at the first who says something.
#[test]
fn a_back_end_that_ends_is_found_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("weak");
    // Our own switch, which a watcher kills again and again.
    let line = format!(
        "{} switch --port weak=vhost-user:{} & pid=$!; sleep 0.6; kill -9 $pid",
        env!("CARGO_BIN_EXE_tautline"),
        socket.display()
    );
    let run = Run::new(&["torture", &format!("vhost-user:{}", socket.display()), "--command", &line])
        .args(&["--only", "order,slow", "--cases", "1000000", "--time", "1s", "--timeout", "1s"])
        .args(&["--quiet", "--format", "json"])
        .finish();
    assert_eq!(run.code, Some(3), "{run}");
    let results: Value = serde_json::from_str(&run.stdout).unwrap();
    let order = &results["families"][0];
    let findings = order["findings"].as_array().unwrap();
    assert!(!findings.is_empty(), "{order}");
    assert!(findings.iter().any(|finding| finding["health"] == "gone"), "{order}");
    nothing_left(run.pid);
}

#[test]
fn what_cannot_be_meant_is_said() {
    for (arguments, code, said) in [
        (vec!["tap:x"], 2, "name a back-end as vhost-user:PATH"),
        (vec!["vhost-user:/nowhere/at/all", "--only", "dance"], 2, "there are order, bytes"),
        (vec!["vhost-user:/nowhere/at/all", "--timeout", "10ms"], 1, "start it"),
    ] {
        let run = Run::new(&["torture"]).args(&arguments).finish();
        assert_eq!(run.code, Some(code), "{run}");
        assert!(run.stderr.contains(said), "{run}");
    }
}
