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

fn json(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)))
}

#[test]
fn changes_are_told_to_programs_too() {
    let recorded = Recorded::new("intel");
    let (root, journal, file) = (recorded.root(), &recorded.place("journal"), &recorded.place("undone.json"));
    let before = recorded.snapshot();
    let apply = [
        "apply",
        "--root",
        root,
        "--isolate",
        "2-3",
        "--rules",
        "vm-statistics,kvm-threads",
        "--journal",
        journal,
    ];
    let output = host(&[&apply[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(1), "a recorded host has no threads: {}", text(&output.stderr));
    let applied = json(&output);
    assert_eq!(applied["schema"], "tautline-host-apply/1");
    assert_eq!(applied["journal"], journal.as_str());
    let changes = applied["changes"].as_array().unwrap();
    let of = |outcome: &str| changes.iter().filter(|change| change["outcome"] == outcome).collect::<Vec<_>>();
    let (written, refused) = (of("written"), of("refused"));
    assert_eq!((written.len(), refused.len()), (1, changes.len() - 1));
    assert_eq!((&applied["written"], &applied["refused"]), (&1.into(), &refused.len().into()));
    assert_eq!(written[0]["rule"], "vm-statistics");
    assert_eq!(
        (&written[0]["knob"], &written[0]["path"]),
        (&"file".into(), &"/proc/sys/vm/stat_interval".into())
    );
    assert_eq!((&written[0]["found"], &written[0]["value"]), (&"1".into(), &"10".into()));
    assert!(refused[0]["failure"]["answer"].as_str().unwrap().contains("no threads"), "{}", refused[0]);

    std::fs::write(recorded.folder.path().join("proc/sys/vm/stat_interval"), "77\n").unwrap();
    let output = host(&["undo", "--root", root, "--journal", journal, "--output", file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("vm-statistics"), "the text is printed as well");
    let undone: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!((&undone["schema"], &undone["not_put_back"]), (&"tautline-host-undo/1".into(), &0.into()));
    let values = undone["values"].as_array().unwrap();
    let value = values.iter().find(|value| value["rule"] == "vm-statistics").unwrap();
    assert_eq!((&value["outcome"], &value["meanwhile"]), (&"restored".into(), &"77".into()));
    assert_eq!((&value["found"], &value["writing"]), (&"1".into(), &"10".into()));
    assert!(recorded.snapshot() == before);
    let again = json(&host(&["undo", "--root", root, "--journal", journal, "--format", "json"]));
    assert_eq!(
        (again["values"].as_array().unwrap().len(), &again["until_reboot"]),
        (0, &serde_json::json!([]))
    );
}

#[test]
fn an_export_is_an_object_for_programs() {
    let export = ["export", "--to", "qemu", "--isolate", "2-3", "--housekeeping", "0", "--name", "g"];
    let own = host(&export);
    let output = host(&[&export[..], &["--format", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let object = json(&output);
    assert_eq!(object["schema"], "tautline-host-export/1");
    assert_eq!((&object["to"], &object["name"]), (&"qemu".into(), &"g".into()));
    assert_eq!((&object["isolated"], &object["housekeeping"]), (&"2,3".into(), &"0".into()));
    assert_eq!((&object["guest_memory_mib"], &object["text"]), (&2048.into(), &text(&own.stdout).into()));
}

/// The name of another file in place of the journal's.
#[test]
fn a_file_that_is_no_journal_is_refused_and_stays() {
    let recorded = Recorded::new("intel");
    let (root, file) = (recorded.root(), &recorded.place("mine"));
    std::fs::write(file, "my notes, without a line's end").unwrap();
    for arguments in [&["undo"][..], &["apply", "--isolate", "2-3", "--rules", "vm-statistics"]] {
        let output = host(&[arguments, &["--root", root, "--journal", file]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        assert!(said.contains("left as it is") && said.contains("--journal"), "{said}");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "my notes, without a line's end");
    }
}
