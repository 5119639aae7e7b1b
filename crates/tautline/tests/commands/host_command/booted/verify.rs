//! `host verify` in the booted machine: a table with an interval for each rule; changes that were undone are named; all
//! values are restored, also after SIGKILL.

use std::time::Duration;

use peers::Guest;
use serde_json::Value;

use super::{ACCEPT, LIMIT, run, same, snapshot};

const VERIFY: &str = "tautline host verify --isolate 2-3 --guest-memory 16M";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap()).collect()
}

/// Every rule that can be written has its row, with an interval for each figure.
pub fn every_rule_gets_an_interval(guest: &Guest, before: &str, planned: &[&str]) {
    let ablate =
        format!("{VERIFY} {ACCEPT} --ablate --time 100ms --blocks 6 --format json --output /tmp/verify.json");
    let text = run(guest, &ablate);
    println!("{text}");
    same(&snapshot(guest), before, "after verify --ablate");
    let found = json(&run(guest, "cat /tmp/verify.json"));
    assert_eq!(found["schema"], "tautline-host-verify/1");
    assert_eq!(found["complete"], true);
    assert_eq!(found["emulated"], true, "{}", found["host"]);
    let rows = names(&found["ablation"], "rule");
    let left_out = names(&found["left_out"], "rule");
    for rule in planned {
        assert!(
            rows.contains(rule) || left_out.contains(rule),
            "{rule}: neither in {rows:?} nor in {left_out:?}"
        );
    }
    for rule in ["domain-isolation", "workqueues", "rt-throttling", "vm-statistics"] {
        assert!(rows.contains(&rule), "{rule} of {rows:?}");
        assert!(text.contains(rule), "{rule} in {text}");
    }
    assert!(left_out.contains(&"tick"), "what needs a reboot is named: {left_out:?}");
    for rule in found["ablation"].as_array().unwrap() {
        let effects = rule["effects"].as_array().unwrap();
        assert_eq!(effects.len(), 8, "{rule}");
        assert!(effects.iter().all(|effect| effect["interval"].is_array()), "{rule}");
    }
    assert_eq!(names(&found["effects"], "figure").len(), 8);
    // Each state once a block, in turns; noise may have a sample repeated.
    let samples = found["samples"].as_array().unwrap();
    assert!(samples.iter().all(|sample| sample["host_noise"].is_object()), "{}", samples[0]);
    let counts = |sample: &&Value| sample["verdict"]["discarded"].is_null();
    let samples: Vec<&Value> = samples.iter().filter(counts).collect();
    assert_eq!(samples.len(), 6 * (2 + rows.len()));
    assert!(
        samples.iter().any(|sample| sample["cpu"] == 2) && samples.iter().any(|sample| sample["cpu"] == 3)
    );
    assert!(
        samples.iter().all(|sample| sample["outcome"]["histogram"].is_object()
            && sample["events"]["switches"].is_u64()
            && sample["events"]["interrupts"].is_u64()),
        "{}",
        samples[0]["events"]
    );
}

/// irqbalance is started, a thread of the kernel moved back, a value written: each is named, and stays the user's.
pub fn what_somebody_undid_is_named(guest: &Guest, before: &str, plan: &Value) {
    let threads =
        plan["rules"].as_array().unwrap().iter().find(|rule| rule["rule"] == "kernel-threads").unwrap();
    let thread = &threads["changes"][0]["thread"];
    let (id, name) = (thread["id"].as_i64().unwrap(), thread["name"].as_str().unwrap());
    run(
        guest,
        "tautline host apply --isolate 2-3 --rules kernel-threads,vm-statistics,rt-throttling,soft-lockup",
    );
    let short = format!("{VERIFY} --time 100ms --blocks 1 --format json");
    run(
        guest,
        "printf '[[limit]]\\nmetric = \"applied.wakeup\"\\nstatistic = \"max\"\\nmax = 1\\n' >/tmp/gate.toml",
    );
    let found = guest.run_within(&format!("{short} --gate /tmp/gate.toml"), LIMIT).unwrap();
    assert_eq!(found.status, 3, "{}", found.stderr);
    assert!(found.stderr.contains("applied.wakeup"), "{}", found.stderr);
    let found = json(&found.stdout);
    assert_eq!((found["was_applied"].as_bool(), names(&found["broken"], "rule").len()), (Some(true), 0));

    // It moves nothing before its first interval is over, so that the values compared below stay.
    let irqbalance = guest.begin("irqbalance --foreground --interval 600", LIMIT).unwrap();
    run(guest, &format!("echo 3 >/proc/sys/vm/stat_interval; taskset -p f {id}"));
    let found = guest.run_within(&short, LIMIT).unwrap();
    assert_eq!(found.status, 3, "{}{}", found.stdout, found.stderr);
    let found = json(&found.stdout);
    let broken = found["broken"].as_array().unwrap();
    println!("{broken:#?}");
    let of = |rule: &str| {
        broken.iter().find(|one| one["rule"] == rule).unwrap_or_else(|| panic!("{rule} in {broken:#?}"))
    };
    assert_eq!(of("vm-statistics")["found"], "3");
    assert!(of("kernel-threads")["what"].as_str().unwrap().contains(name));
    assert!(of("irqbalance")["found"].as_str().unwrap().starts_with("running"));
    assert_eq!(broken.len(), 3, "{broken:#?}");
    // Rules that still hold are switched; values that another program changed are not touched.
    assert_eq!(names(&found["effects"], "figure").len(), 8);
    assert_eq!(run(guest, "cat /proc/sys/vm/stat_interval /proc/sys/kernel/soft_watchdog"), "3\n0\n");

    run(guest, "kill $(pidof irqbalance)");
    let _ = irqbalance.wait();
    run(guest, "tautline host undo");
    same(&snapshot(guest), before, "after undo of what was half undone");
    let mask = run(guest, &format!("taskset -p {id}"));
    assert!(mask.trim().ends_with(": f"), "{mask}");
}

/// SIGKILL while states are switched and samples taken.
pub fn killed_in_the_middle(guest: &Guest, before: &str) {
    for (number, seconds) in ["0.7", "1.6", "3"].into_iter().enumerate() {
        let kill = format!("timeout -s KILL {seconds} {VERIFY} {ACCEPT} --ablate --time 6s --blocks 20");
        let killed = guest.run_within(&kill, Duration::from_secs(60)).unwrap();
        assert!(!killed.success(), "{}", killed.stdout);
        let undone = run(guest, "tautline host undo");
        println!("killed after {seconds} s: {} values put back", undone.lines().count());
        same(&snapshot(guest), before, &format!("killed after {seconds} s, number {number}"));
    }
    // Ctrl-C puts back by itself, and shows what there is: the third sample has begun.
    let interrupt = format!(
        "{VERIFY} {ACCEPT} --verbose --time 6s --blocks 20 2>/tmp/steps & \
         until [ $(grep -cE 'as found|applied' /tmp/steps) -ge 3 ]; do sleep 0.1; done; kill -INT $!; wait $!; echo $?"
    );
    let shown = run(guest, &interrupt);
    assert!(shown.trim_end().ends_with("130") && shown.contains("interrupted"), "{shown}");
    same(&snapshot(guest), before, "after SIGINT");
    // Nothing that measured is left.
    assert_eq!(run(guest, "pgrep tautline || true"), "");
}
