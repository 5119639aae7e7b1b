//! Apply and undo on copies of recorded hosts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use host::{Outcome, Picked, PutBack, Survey, Toggle};

use super::Host;

/// Every folder and file below, with its content.
pub fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            all.insert(entry.path(), None);
            all.extend(snapshot(&entry.path()));
        } else {
            all.insert(entry.path(), Some(fs::read(entry.path()).unwrap()));
        }
    }
    all
}

/// Everything in the plan, with every hazard accepted.
pub fn all_of(host: &Host) -> Picked {
    Picked { rules: None, accepted: host.plan().rules.iter().map(|rule| rule.rule.clone()).collect() }
}

#[test]
fn everything_is_written_and_everything_is_put_back() {
    for (name, host) in Host::all() {
        let place = tempfile::tempdir().unwrap();
        let journal = place.path().join("journal");
        let before = snapshot(host.folder.path());
        let mut written = 0;
        let summary =
            host::apply(&host.tree, &host.plan(), &all_of(&host), &journal, |outcome| match outcome {
                Outcome::Written { .. } => written += 1,
                // A recorded host has no threads that could be moved.
                Outcome::Refused { rule, failure } => {
                    let of_threads = ["kvm-threads", "kernel-threads", "fifo-order"];
                    assert!(of_threads.contains(rule), "{name}: {failure}")
                }
            })
            .unwrap();
        assert_eq!(summary.written, written, "{name}");
        let after = host.plan();
        for rule in &after.rules {
            let left: Vec<_> = rule.at_run_time().collect();
            // No kernel is there to move threads and interrupts, or to find free pages.
            let needs_a_kernel = matches!(
                rule.rule.as_str(),
                "kvm-threads" | "kernel-threads" | "fifo-order" | "interrupts" | "huge-pages"
            );
            assert!(left.is_empty() || needs_a_kernel, "{name}: {}: {left:?}", rule.rule);
        }
        // The last has no more files than its test needs.
        if !name.ends_with("one-cpu") && !["realtime", "memoryless-node"].contains(&name) {
            assert!(written > 5 && snapshot(host.folder.path()) != before, "{name}: {written}");
        }
        let failures = host::undo(&host.tree, &journal, |_, _| {}).unwrap();
        assert_eq!(failures, 0, "{name}");
        assert_eq!(snapshot(host.folder.path()), before, "{name}");
        assert!(!journal.exists(), "{name}: the journal goes when all is back");
    }
}

#[test]
fn a_hazard_stops_everything_before_the_first_write() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let before = snapshot(host.folder.path());
    let failure =
        host::apply(&host.tree, &host.plan(), &Picked::default(), &journal, |_| panic!()).unwrap_err();
    assert!(failure.remedy.contains("--accept workqueues"), "{failure}");
    assert!(failure.remedy.contains("--accept domain-isolation"), "{failure}");
    let picked = Picked { rules: Some(vec!["no-such-rule".into()]), accepted: vec![] };
    let failure = host::apply(&host.tree, &host.plan(), &picked, &journal, |_| panic!()).unwrap_err();
    assert!(failure.tried.contains("no-such-rule"), "{failure}");
    assert_eq!(snapshot(host.folder.path()), before);
    assert!(!journal.exists());
}

#[test]
fn only_the_picked_rule_is_touched() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let before = snapshot(host.folder.path());
    let picked = Picked { rules: Some(vec!["vm-statistics".into()]), accepted: vec![] };
    let summary = host::apply(&host.tree, &host.plan(), &picked, &journal, |_| {}).unwrap();
    assert_eq!((summary.written, summary.refused), (1, 0));
    let after = snapshot(host.folder.path());
    let changed: Vec<_> = after.iter().filter(|(path, content)| before[*path] != **content).collect();
    assert_eq!(changed.len(), 1);
    assert!(changed[0].0.ends_with("proc/sys/vm/stat_interval"));
}

#[test]
fn undo_tells_of_what_others_changed_and_of_what_has_gone() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let rules = ["vm-statistics", "rt-throttling"].map(str::to_owned);
    let picked = Picked { rules: Some(rules.into()), accepted: vec![] };
    host::apply(&host.tree, &host.plan(), &picked, &journal, |_| {}).unwrap();
    fs::write(host.folder.path().join("proc/sys/vm/stat_interval"), "77\n").unwrap();
    fs::remove_file(host.folder.path().join("proc/sys/kernel/sched_rt_runtime_us")).unwrap();
    let mut said = Vec::new();
    host::undo(&host.tree, &journal, |entry, outcome| said.push(format!("{}: {outcome:?}", entry.rule)))
        .unwrap();
    assert_eq!(said, ["vm-statistics: Restored { meanwhile: Some(\"77\") }", "rt-throttling: Gone"]);
    assert_eq!(host.tree.read("/proc/sys/vm/stat_interval").unwrap(), "1");
}

#[test]
fn after_a_reboot_there_is_nothing_to_write() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let id = host.folder.path().join("proc/sys/kernel/random/boot_id");
    fs::create_dir_all(id.parent().unwrap()).unwrap();
    fs::write(&id, "one\n").unwrap();
    let picked = Picked { rules: Some(vec!["vm-statistics".into()]), accepted: vec![] };
    host::apply(&host.tree, &host.plan(), &picked, &journal, |_| {}).unwrap();
    fs::write(&id, "two\n").unwrap();
    let failure = host::apply(&host.tree, &host.plan(), &picked, &journal, |_| {});
    // The value is as wanted, so that nothing would be written; another rule shows the journal's age.
    assert!(failure.is_ok_and(|summary| summary.written == 0));
    let picked = Picked { rules: Some(vec!["timer-migration".into()]), accepted: vec![] };
    let failure = host::apply(&host.tree, &host.plan(), &picked, &journal, |_| panic!()).unwrap_err();
    assert!(failure.answer.contains("earlier boot"), "{failure}");
    host::undo(&host.tree, &journal, |_, outcome| assert!(matches!(outcome, PutBack::Rebooted))).unwrap();
    assert_eq!(host.tree.read("/proc/sys/vm/stat_interval").unwrap(), "10");
    assert!(!journal.exists());
}

#[test]
fn a_torn_last_line_stands_for_a_write_that_never_began() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let before = snapshot(host.folder.path());
    let picked = Picked { rules: Some(vec!["vm-statistics".into()]), accepted: vec![] };
    host::apply(&host.tree, &host.plan(), &picked, &journal, |_| {}).unwrap();
    let mut text = fs::read(&journal).unwrap();
    text.extend(br#"{"line":"change","rule":"timer-mi"#);
    fs::write(&journal, text).unwrap();
    assert_eq!(host::undo(&host.tree, &journal, |_, _| {}).unwrap(), 0);
    assert_eq!(snapshot(host.folder.path()), before);
}

#[test]
fn two_at_once_are_kept_apart() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let _held = host::journal::Journal::begin(&journal, &host.tree).unwrap();
    let failure = host::undo(&host.tree, &journal, |_, _| {}).unwrap_err();
    assert!(failure.answer.contains("another tautline"), "{failure}");
}

/// The name of another file in place of the journal's.
#[test]
fn a_file_that_is_no_journal_stays_as_it_is() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mine");
    let picked = Picked { rules: Some(vec!["vm-statistics".into()]), accepted: vec![] };
    let before = snapshot(host.folder.path());
    let begin = format!(
        r#"{{"line":"begin","schema":"tautline-host-journal/1","root":{:?},"boot":null}}"#,
        host.tree.root()
    );
    let other = begin.replace("journal/1", "journal/2");
    for (content, words) in [
        ("my notes, without a line's end", "line 1"),
        ("my notes\n", "line 1"),
        ("my notes\nand half a line", "line 1"),
        ("\n", "line 1"),
        ("\n\n", "line 1"),
        ("{}\n", "line 1"),
        ("{\"line\":\"begin\"", "line 1"),
        ("{\"line\":\"holds\",\"rules\":[]}\n", "line 1"),
        ("{\"line\":\"begin\",\"schema\":\"another/1\",\"root\":\"/\",\"boot\":null}\n", "line 1"),
        (&format!("{other}\n{other}\nhalf"), "tautline-host-journal/2"),
        (&format!("{begin}\nmy notes\nhalf"), "line 2"),
        (&format!("{begin}\n{{\"line\":\"holds\",\"rules\":[]}}\n{other}\nhalf"), "line 3"),
    ] {
        fs::write(&file, content).unwrap();
        let mut failures = vec![
            host::undo(&host.tree, &file, |_, _| {}).unwrap_err(),
            host::apply(&host.tree, &host.plan(), &picked, &file, |_| {}).unwrap_err(),
            host::note_what_holds(&Survey::of(&host.tree, &host.wishes).unwrap(), &file).unwrap_err(),
        ];
        failures.extend(Toggle::open(&host.tree, &file).err());
        assert_eq!(failures.len(), 4, "{content:?}");
        for failure in failures {
            assert!(failure.to_string().contains(words), "{content:?}: {failure}");
            assert!(failure.remedy.contains("left as it is"), "{content:?}: {failure}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    // An empty file is no journal yet: nothing is put back, and it stays.
    fs::write(&file, "").unwrap();
    assert_eq!(host::undo(&host.tree, &file, |_, _| panic!()).unwrap(), 0);
    assert_eq!(fs::read(&file).unwrap(), b"");
    // A pipe is not waited for.
    fs::remove_file(&file).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let failure = host::undo(&host.tree, &file, |_, _| {}).unwrap_err();
    assert!(failure.answer.contains("no regular file"), "{failure}");
    assert_eq!(snapshot(host.folder.path()), before);
}
