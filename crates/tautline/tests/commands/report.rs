//! `tautline report` on files that anyone can have written: none drives a terminal, none ends the reader by a panic.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::Run;

/// Where each value of a document stands, as a JSON pointer.
fn places(document: &Value) -> Vec<String> {
    fn add(value: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match value {
            Value::Array(all) => {
                all.iter().enumerate().for_each(|(index, value)| add(value, &format!("{at}/{index}"), found));
            }
            Value::Object(all) => {
                all.iter().for_each(|(key, value)| add(value, &format!("{at}/{key}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    add(document, "", &mut found);
    found
}

/// The document with another value in one place.
fn with(document: &Value, place: &str, value: Value) -> Value {
    let mut changed = document.clone();
    *changed.pointer_mut(place).unwrap() = value;
    changed
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

const RFC2544: &str = include_str!("../../../traffic/tests/data/rfc2544.json");

/// A results file comes from anywhere. Whatever text in it is drawn, or named in an error, drives no terminal.
#[test]
fn a_results_file_drives_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let [file, text, html] = ["run.json", "run.txt", "run.html"].map(|name| folder.path().join(name));
    let whole: Value = serde_json::from_str(RFC2544).unwrap();
    // A title, a cleared screen, the same by a single character, concealed text, and a change of direction.
    let hostile = "\x1b]0;title\x07\x1b[2J\u{9b}2J\x1b[8m\r\u{202e}<b>";
    let mut drawn = 0;
    let texts = places(&whole).into_iter().filter(|place| whole.pointer(place).unwrap().is_string());
    for place in texts {
        let text_there = whole.pointer(&place).unwrap().as_str().unwrap();
        let document = with(&whole, &place, format!("{text_there}{hostile}").into());
        fs::write(&file, document.to_string()).unwrap();
        let report =
            |more: &[&str]| Run::new(&["--color", "always", "report"]).arg(&file).args(more).finish();
        let to_files = ["--output", text.to_str().unwrap(), "--html", html.to_str().unwrap()];
        let run = report(&to_files);
        let mut shown = vec![run.stdout, run.stderr];
        if run.code == Some(0) {
            shown.extend([&text, &html].map(|path| fs::read_to_string(path).unwrap()));
            // Programs get the text as it is, escaped as JSON does.
            let printed = report(&["--format", "json"]).stdout;
            assert!(printed.contains("u001b]0;title"), "{printed}");
        }
        for shown in shown {
            drawn += usize::from(shown.contains("]0;title"));
            let unfit = |c: char| c.is_control() && !"\n\t".contains(c) || c == '\u{202e}';
            assert!(!shown.contains(unfit), "{shown:?}");
        }
    }
    assert!(drawn > 10, "{drawn} outputs had any of it");
}

/// Files of each command whose run is short and needs no KVM.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let host = ["--quiet", "--environments", "host"];
    let commands: [&[&str]; 3] = [
        &["scenario", "base-station", "--users", "1", "--repeat", "1", "--time", "100ms"],
        &["tti", "--time", "100ms", "--load", "none,cpu"],
        &["compare", "--quick", "--blocks", "1", "--only", "os,net.loopback.udp_rr.64"],
    ];
    let mut files = Vec::new();
    for (number, command) in commands.into_iter().enumerate() {
        let file = folder.join(format!("{number}.json"));
        let run = Run::new(command).args(&host).args(&["--format", "json", "--output"]).arg(&file).finish();
        assert!(file.exists(), "{run}");
        files.push(file);
    }
    let file = folder.join("rfc2544.json");
    fs::write(&file, RFC2544).unwrap();
    files.push(file);
    files
}

/// Values that a writer of the file can have put in the place of one.
fn others(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(all) => vec![json!([]), all.iter().take(1).cloned().collect()],
        Value::Number(number) if number.is_f64() => vec![json!(0.0), json!(-1.5), json!(1e300)],
        Value::Number(_) => vec![json!(0), json!(u64::MAX), json!(u32::MAX), json!(-1)],
        Value::String(_) => vec![json!("")],
        Value::Bool(value) => vec![json!(!value)],
        Value::Object(_) | Value::Null => vec![json!({}), Value::Null],
    }
}

/// Lists without an element, numbers at the ends of their range: the file is drawn, or one line says what is wrong.
/// Each place has one such value, or all of them (`make report-shapes`).
#[test]
fn a_results_file_of_any_shape_is_drawn_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [changed, text, html] =
        ["changed.json", "changed.txt", "changed.html"].map(|name| folder.path().join(name));
    let all_values = std::env::var_os("TAUTLINE_ALL_SHAPES").is_some();
    let (mut codes, mut unread) = (BTreeSet::new(), Vec::new());
    for file in documents(folder.path()) {
        let whole = read(&file);
        let mut seen = BTreeSet::new();
        for place in places(&whole) {
            // Elements of one list are alike.
            let kind: Vec<&str> = place.split('/').filter(|part| part.parse::<u32>().is_err()).collect();
            if !seen.insert(kind.join("/")) {
                continue;
            }
            let mut others = others(whole.pointer(&place).unwrap());
            if !all_values {
                let chosen = seen.len() % others.len();
                others = vec![others.swap_remove(chosen)];
            }
            for other in others {
                fs::write(&changed, with(&whole, &place, other.clone()).to_string()).unwrap();
                let run = Run::new(&["report"]).arg(&changed).args(&["--output"]).arg(&text);
                let run = run.args(&["--html"]).arg(&html).finish();
                if !matches!(run.code, Some(0..=3)) {
                    unread.push(format!("{}: {place} is {other}: {}", file.display(), run.stderr));
                }
                codes.insert(run.code);
            }
        }
        assert!(seen.len() > 20, "{seen:?}");
    }
    assert!(unread.is_empty(), "{}", unread.join("\n"));
    assert!(codes.len() > 1, "{codes:?}");
}

/// An archive is shown and written only when that is confirmed; it has what this machine says of itself, and is drawn.
#[test]
fn a_run_is_shared_without_the_names_of_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let [file, archive] = ["walburga.json", "archive.json"].map(|name| folder.path().join(name));
    let measured =
        Run::new(&["compare", "--quick", "--blocks", "1", "--only", "os.syscall", "--environments", "host"])
            .args(&["--output", file.to_str().unwrap()])
            .finish();
    assert_eq!(measured.code, Some(0), "{}", measured.stderr);
    let mut whole = read(&file);
    let model = whole["host"]["cpu_model"].clone();
    let share = |more: &[&str]| {
        Run::new(&["report"])
            .arg(&file)
            .arg("--share")
            .arg(&archive)
            .args(more)
            .env("SUDO_USER", "walburga")
            .finish()
    };

    // Results of another machine: this machine's own facts are not read.
    whole["host"]["cpu_model"] = "walburga's own".into();
    fs::write(&file, whole.to_string()).unwrap();
    let run = share(&[]);
    assert_eq!((run.code, archive.exists()), (Some(2), false), "{}", run.stderr);
    assert!(
        run.stdout.contains("walburga -> ") && run.stderr.contains("add --yes"),
        "{} {}",
        run.stdout,
        run.stderr
    );
    let run = share(&["--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("audit and doctor are left out"), "{}", run.stderr);
    assert!(read(&archive).get("doctor").is_none());

    whole["host"]["cpu_model"] = model;
    fs::write(&file, whole.to_string()).unwrap();
    let run = share(&["--yes"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let found = read(&archive);
    assert_eq!(found["audit"]["schema"], "tautline-host-audit/1");
    assert_eq!(found["doctor"]["schema"], "tautline-doctor/1");
    let text = fs::read_to_string(&archive).unwrap();
    for secret in ["walburga", folder.path().to_str().unwrap()] {
        assert!(!text.contains(secret), "{secret}");
    }
    let drawn = Run::new(&["report"]).arg(&archive).finish();
    assert_eq!(drawn.code, Some(0), "{}", drawn.stderr);
    assert!(drawn.stdout.contains("system call"), "{}", drawn.stdout);
}

/// A shell names files in any order, archives among them; the runs stand in the order in which they were made.
#[test]
fn several_runs_are_set_side_by_side_in_the_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let [page, archive] = ["page.html", "archive.json"].map(|name| folder.path().join(name));
    let mut files = Vec::new();
    for day in [3, 1, 2] {
        let mut run = measure::example::results();
        run.started = format!("2026-01-0{day}T00:00:00Z");
        let file = folder.path().join(format!("{day}.json"));
        run.save(&file).unwrap();
        files.push(file);
    }
    let shared = Run::new(&["report"]).arg(&files[0]).args(&["--yes", "--share"]).arg(&archive).finish();
    assert_eq!(shared.code, Some(0), "{shared}");
    files[0] = archive;
    let all = files.iter().fold(Run::new(&["report"]), |run, file| run.arg(file));
    let run = all.args(&["--html"]).arg(&page).finish();
    assert_eq!(run.code, Some(0), "{run}");
    let at = |day: usize, text: &str| text.find(&format!("2026-01-0{day}T00:00:00Z"));
    let html = fs::read_to_string(&page).unwrap();
    for text in [&run.stdout, &html] {
        let places = [1, 2, 3].map(|day| at(day, text).unwrap_or_else(|| panic!("{day}: {text}")));
        assert!(places.is_sorted(), "{places:?}");
    }
    let document =
        files.iter().fold(Run::new(&["report", "--format", "json"]), |run, file| run.arg(file)).finish();
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(
        (&document["schema"], document["runs"].as_array().unwrap().len()),
        (&json!("tautline-runs/1"), 3)
    );

    let other = folder.path().join("rfc2544.json");
    fs::write(&other, RFC2544).unwrap();
    let mixed = files.iter().fold(Run::new(&["report"]).arg(&other), |run, file| run.arg(file)).finish();
    assert_eq!(mixed.code, Some(2), "{mixed}");
}
