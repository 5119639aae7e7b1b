//! Options, forms and exit codes, on recorded hosts.

use super::{Recorded, host, text, unpack};

#[test]
fn the_gate_counts_what_is_wrong_and_what_is_unknown() {
    let folder = unpack("intel");
    let root = folder.path().to_str().unwrap();
    let output = host(&["audit", "--root", root, "--isolate", "2-3,6-7"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Unknown: not passed"));
    let output = host(&["audit", "--root", root, "--isolate", "2-3,6-7", "--gate", "--format", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let audit: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(audit["schema"], "tautline-host-audit/1");
    assert_eq!(audit["isolated"], "2,3,6,7");
}

#[test]
fn results_go_where_they_are_told_to() {
    let recorded = Recorded::new("intel");
    let (root, file) = (recorded.root(), &recorded.place("plan.json"));
    let output = host(&["plan", "--root", root, "--isolate", "2-3", "--format", "json", "--output", file]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("vm-statistics"), "the text is printed as well");
    let plan: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(plan["schema"], "tautline-host-plan/1");
    let output = host(&["plan", "--root", root, "--isolate", "2-3", "--tuned"]);
    assert!(text(&output.stdout).contains("[bootloader]"));
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let folder = unpack("one-cpu");
    let root = folder.path().to_str().unwrap();
    for (arguments, code, words) in [
        (&["audit", "--root", "/no/such/folder"][..], 2, "name a recorded host's file or folder"),
        (&["audit", "--isolate", "x"], 2, "no list of CPUs"),
        (&["audit", "--watch", "long"], 2, "200ms"),
        (&["apply", "--root", root], 2, "--rules"),
        (&["apply", "--root", root, "--isolate", "0", "--all"], 1, "leave at least one CPU"),
        (&["apply", "--root", root, "--rules", "nonsense"], 1, "there is no such rule"),
        (&["export", "--to", "qemu", "--isolate", "0", "--housekeeping", "0"], 1, "--housekeeping"),
    ] {
        let output = host(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_host_that_is_recorded_is_audited_elsewhere() {
    let recorded = Recorded::new("two-nodes");
    let file = &recorded.place("two-nodes.host");
    let audit = |root: &str, more: &[&str]| {
        let words = [&["audit", "--root", root, "--isolate", "5-7", "--format", "json"], more].concat();
        let output = host(&words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let first = audit(recorded.root(), &["--record", file]);
    let said = std::fs::read_to_string(file).unwrap();
    assert!(said.starts_with("# Recorded by `tautline host audit --record`"), "{said}");
    assert_eq!(audit(file, &[]), first, "{said}");
    let plan = |root: &str| text(&host(&["plan", "--root", root, "--isolate", "5-7"]).stdout);
    assert_eq!(plan(file), plan(recorded.root()));
    // The machine that the test runs on has more that cannot be read, and less to compare.
    let live = &recorded.place("live.host");
    let output = host(&["audit", "--watch", "0s", "--format", "json", "--record", live]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = host(&["audit", "--root", live]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// A container's /sys and /proc/sys: they can be read, and not be written.
#[test]
fn a_host_that_is_mounted_read_only_refuses_and_says_where_to_run() {
    let recorded = Recorded::new("container");
    let (root, journal) = (recorded.root(), &recorded.place("journal"));
    let line = format!(
        "mount --bind {root} {root} && mount -o remount,ro,bind {root} && exec {} host apply --root {root} \
         --isolate 2-3 --rules vm-statistics --journal {journal}",
        super::BINARY
    );
    let output = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("Read-only file system") && said.contains("0 changed, 1 refused"), "{said}");
    assert_eq!(host(&["undo", "--root", root, "--journal", journal]).status.code(), Some(0));
}

#[test]
fn undo_without_a_journal_says_so() {
    let folder = unpack("realtime");
    let root = folder.path().to_str().unwrap();
    let output = host(&["undo", "--root", root, "--journal", "/no/such/journal"]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stdout);
    assert!(said.contains("nothing to put back"), "{said}");
    assert!(said.contains("only a boot without them takes away") && said.contains("nohz_full=2-3"), "{said}");
}
