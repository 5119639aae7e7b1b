//! The distribution's real-time kernel: what is different there is written, verified and put back.

use peers::guest::Settings;
use serde_json::Value;

use super::{ACCEPT, ISOLATED, LIMIT, boot, run, same, snapshot};

const ISOLATE: &str = "--isolate 2-3 --guest-memory 64M";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_real_time_kernel_too() {
    peers::standstill::once_more(real_time_kernel);
}

fn real_time_kernel() {
    let guest = boot(Settings::default().realtime(), ISOLATED);
    assert_eq!(run(&guest, "cat /sys/kernel/realtime").trim(), "1");
    let before = snapshot(&guest);
    // Which policy and priority each thread has, which no file of the snapshot says.
    let threads = "awk '{print $2, $40, $41}' /proc/[0-9]*/stat 2>/dev/null | grep -E '^.(ksoftirqd|ktimers|rcuc|rcub)/'";
    let order = run(&guest, threads);

    let audit = json(&run(&guest, &format!("tautline host audit {ISOLATE} --watch 0s --format json")));
    let state = |rule: &str| {
        let mut findings = audit["findings"].as_array().unwrap().iter();
        findings.find(|finding| finding["rule"] == rule).unwrap_or_else(|| panic!("{rule}"))["state"].clone()
    };
    assert_eq!(state("realtime-kernel"), "pass");
    // Real-time kernels have threads whose order counts.
    assert_eq!(state("fifo-order"), "fail", "{order}");

    let apply = format!("tautline host apply {ISOLATE} --all {ACCEPT}");
    let output = guest.run_within(&apply, LIMIT).unwrap();
    println!("{}{}", output.stdout, output.stderr);
    for line in output.stdout.lines().filter(|line| line.contains("not done")) {
        assert!(line.starts_with("interrupts: not done"), "{line}");
    }
    assert!(output.stdout.contains("fifo-order: scheduling of thread"), "{}", output.stdout);
    let ordered = run(&guest, threads);
    assert!(ordered != order && ordered.contains("(rcuc/2) 4 1"), "{ordered}");
    assert_ne!(snapshot(&guest), before);

    // After a plan was applied, all of it holds, and each state is measured.
    run(&guest, "printf '[[limit]]\\nmetric = \"applied.*\"\\nmax = 1e15\\n' >/tmp/gate.toml");
    let verify =
        format!("tautline host verify {ISOLATE} --time 300ms --blocks 6 --gate /tmp/gate.toml --format json");
    let output = guest.run_within(&verify, LIMIT).unwrap();
    assert_eq!(output.status, 0, "{}", output.stderr);
    let held: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("gate: ")).collect();
    assert_eq!(held.len(), 5, "wake-ups, interrupts, timer, softirqs, switches: {}", output.stderr);
    let found = json(&output.stdout);
    assert_eq!((&found["was_applied"], found["broken"].as_array().unwrap().len()), (&true.into(), 0));
    let rules: Vec<&str> =
        found["rules"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap()).collect();
    assert!(rules.contains(&"fifo-order") && rules.contains(&"domain-isolation"), "{rules:?}");
    let effects = found["effects"].as_array().unwrap();
    assert!(effects.len() == 8 && effects.iter().all(|effect| effect["interval"].is_array()), "{effects:#?}");
    assert_eq!(run(&guest, threads), ordered, "it stays applied");

    println!("{}", run(&guest, "tautline host undo"));
    same(&snapshot(&guest), &before, "after undo");
    assert_eq!(run(&guest, threads), order, "after undo");
}
