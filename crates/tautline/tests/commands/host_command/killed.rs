//! The real process is killed in the middle of `apply`: strace ends it at a chosen system call.

use std::path::Path;
use std::process::Command;

use super::{BINARY, Recorded, host, kill_points, text};

/// What changes a host or its journal.
const CALLS: &str = "openat,openat2,write,ftruncate,fsync,fdatasync,mkdir,mkdirat";

/// `apply` of everything, under strace, which may end it at the nth call of a kind.
fn apply(root: &str, journal: &str, log: &Path, kill_at: Option<(&str, usize)>) {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", &format!("trace={CALLS}"), "-o"]).arg(log);
    if let Some((kind, number)) = kill_at {
        command.args(["-e", &format!("inject={kind}:signal=SIGKILL:when={number}")]);
    }
    command.args([BINARY, "host", "apply", "--root", root, "--isolate", "2-3,6-7", "--all"]);
    for rule in ["domain-isolation", "workqueues", "posted-timers", "rt-throttling"] {
        command.args(["--accept", rule]);
    }
    let output = command.args(["--journal", journal]).output();
    output.expect("strace: scripts/setup.sh test installs it");
}

/// The call's name, after the process id.
fn kind(line: &str) -> &str {
    let call = line.split_once(' ').map_or(line, |(_, call)| call).trim_start();
    call.split('(').next().unwrap_or_default()
}

#[test]
fn killed_at_any_point_everything_can_be_put_back() {
    let points = kill_points();
    let recorded = Recorded::new("intel");
    let (root, journal) = (recorded.root(), &recorded.place("journal"));
    let log = recorded.place.path().join("log");
    let before = recorded.snapshot();

    // Once to the end, to see which calls there are between the journal's first and the last.
    apply(root, journal, &log, None);
    let whole = recorded.snapshot();
    assert!(whole != before);
    let calls = text(&std::fs::read(&log).unwrap());
    // Only the thread that changes the host: strace counts each by itself.
    let thread = calls.split(' ').next().unwrap();
    let calls: Vec<&str> = calls.lines().filter(|call| call.starts_with(thread)).collect();
    let first =
        1 + calls.iter().position(|call| call.contains(journal.as_str())).expect("opening the journal");
    let last = calls.len();
    assert!(last - first > 2 * points, "{first} to {last}");
    assert_eq!(host(&["undo", "--root", root, "--journal", journal]).status.code(), Some(0));
    assert!(recorded.snapshot() == before);

    let mut seen = std::collections::BTreeSet::new();
    for point in 0..points {
        let number = first + point * (last - first) / (points - 1);
        // strace counts each kind of call by itself.
        let kind_here = kind(calls[number - 1]);
        let nth = calls[..number].iter().filter(|call| kind(call) == kind_here).count();
        apply(root, journal, &log, Some((kind_here, nth)));
        let said = text(&std::fs::read(&log).unwrap());
        assert!(said.contains("killed by SIGKILL"), "point {point}: {kind_here} {nth}: {said}");
        seen.insert(recorded.snapshot());
        let output = host(&["undo", "--root", root, "--journal", journal]);
        assert_eq!(output.status.code(), Some(0), "point {point}: {}", text(&output.stderr));
        assert!(recorded.snapshot() == before, "point {point}: {kind_here} {nth}: {}", text(&output.stdout));
    }
    assert!(seen.len() > points / 2, "only {} different half-applied hosts", seen.len());
}

/// `undo` that is itself killed is called again.
#[test]
fn undo_is_killed_and_called_again() {
    let recorded = Recorded::new("intel");
    let (root, journal) = (recorded.root(), &recorded.place("journal"));
    let before = recorded.snapshot();
    for number in [1, 5, 9, 13] {
        apply(root, journal, &recorded.place.path().join("log"), None);
        let inject = format!("inject=write:signal=SIGKILL:when={number}");
        let killed = Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=write", "-e", &inject, "-o", "/dev/null", BINARY])
            .args(["host", "undo", "--root", root, "--journal", journal])
            .output()
            .unwrap();
        assert!(!killed.status.success(), "write {number}");
        assert_eq!(host(&["undo", "--root", root, "--journal", journal]).status.code(), Some(0));
        assert!(recorded.snapshot() == before, "write {number}");
    }
}
