//! Rules of an applied plan, switched off and on, and changes that another program undid.

use std::fs;

use host::{Audit, Outcome, Picked, Survey, Toggle, rules::State};

use super::undo::{all_of, snapshot};
use super::{Host, state};

#[test]
fn every_rule_goes_off_alone_and_comes_back() {
    for name in ["intel", "amd", "two-nodes", "112-cpus"] {
        let host = Host::of(name);
        let place = tempfile::tempdir().unwrap();
        let journal = place.path().join("journal");
        let before = snapshot(host.folder.path());
        let mut written: Vec<String> = Vec::new();
        host::apply(&host.tree, &host.plan(), &all_of(&host), &journal, |outcome| {
            if let Outcome::Written { rule, .. } = outcome
                && !written.contains(&(*rule).to_owned())
            {
                written.push((*rule).to_owned());
            }
        })
        .unwrap();
        let applied = snapshot(host.folder.path());
        let mut toggle = Toggle::open(&host.tree, &journal).unwrap().unwrap();
        let rules: Vec<String> = toggle.rules().map(str::to_owned).collect();
        assert_eq!(rules, written, "{name}");
        toggle.switch(|_| false).unwrap();
        assert!(snapshot(host.folder.path()) == before, "{name}: all off");
        for off in &rules {
            toggle.switch(|rule| rule != off).unwrap();
            let now = snapshot(host.folder.path());
            assert!(now != applied, "{name}: {off} is off");
            toggle.switch(|rule| rule == off).unwrap();
            assert!(snapshot(host.folder.path()) != before, "{name}: {off} alone is on");
        }
        toggle.switch(|_| true).unwrap();
        assert!(snapshot(host.folder.path()) == applied, "{name}: all on");
        // No other program changes the host meanwhile, so all values can be restored.
        assert!(host::undo(&host.tree, &journal, |_, _| {}).is_err());
        drop(toggle);
        assert_eq!(host::undo(&host.tree, &journal, |_, _| {}).unwrap(), 0);
        assert!(snapshot(host.folder.path()) == before, "{name}");
    }
}

#[test]
fn what_is_given_up_is_put_back_and_stays_so() {
    let host = Host::of("intel");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let picked =
        Picked { rules: Some(["vm-statistics", "soft-lockup"].map(str::to_owned).into()), accepted: vec![] };
    host::apply(&host.tree, &host.plan(), &picked, &journal, |_| {}).unwrap();
    let mut toggle = Toggle::open(&host.tree, &journal).unwrap().unwrap();
    toggle.give_up("vm-statistics");
    toggle.switch(|_| false).unwrap();
    toggle.switch(|_| true).unwrap();
    let read = |path: &str| host.tree.read(path).unwrap();
    assert_eq!(
        (read("/proc/sys/vm/stat_interval"), read("/proc/sys/kernel/soft_watchdog")),
        ("1".into(), "0".into())
    );
    assert_eq!(toggle.rules().collect::<Vec<_>>(), ["soft-lockup"]);
    // What is not to be switched stays as it is.
    toggle.only(|rule| rule == "vm-statistics");
    toggle.switch(|_| false).unwrap();
    assert_eq!(host.tree.read("/proc/sys/kernel/soft_watchdog").unwrap(), "0");
}

#[test]
fn what_somebody_undid_is_named_and_left_alone() {
    let host = Host::of("amd");
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("journal");
    let audit = || Audit::of(&Survey::of(&host.tree, &host.wishes).unwrap());
    let broken = || host::no_longer_holds(&host.tree, &audit(), &journal).unwrap();
    assert_eq!(broken(), None, "nothing is applied");
    host::apply(&host.tree, &host.plan(), &all_of(&host), &journal, |_| {}).unwrap();
    host::note_what_holds(&Survey::of(&host.tree, &host.wishes).unwrap(), &journal).unwrap();
    assert_eq!(broken().unwrap(), [], "what was refused was never in force");

    assert_eq!(state(&audit(), "irqbalance"), State::Pass);
    let process = host.folder.path().join("proc/4242");
    fs::create_dir(&process).unwrap();
    let stat = "4242 (irqbalance) S 1 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 99 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 0 0 0 0 0 0";
    fs::write(process.join("stat"), stat).unwrap();
    fs::write(process.join("status"), "Cpus_allowed_list:\t0-7\n").unwrap();
    fs::write(host.folder.path().join("proc/sys/vm/stat_interval"), "3\n").unwrap();
    let found = broken().unwrap();
    let rules: Vec<&str> = found.iter().map(|one| one.rule.as_str()).collect();
    assert_eq!(rules, ["vm-statistics", "irqbalance"], "{found:#?}");
    assert_eq!((found[0].wanted.as_str(), found[0].found.as_str()), ("10", "3"));
    assert!(found[1].found.starts_with("running"), "{found:#?}");

    let mut toggle = Toggle::open(&host.tree, &journal).unwrap().unwrap();
    assert!(!toggle.rules().any(|rule| rule == "vm-statistics"));
    toggle.switch(|_| false).unwrap();
    assert_eq!(host.tree.read("/proc/sys/vm/stat_interval").unwrap(), "3");
}
