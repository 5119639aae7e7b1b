//! Ticks to user space of a guest under real KVM, in the nested machine: through the doorbell, KVM's irqfd, the
//! guest's `vfio-pci` and an eventfd. One boot of the machine for all of it.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use peers::nested::{Machine, Settings};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const RUN: &str = "tautline --quiet tti --environments vm:accel=kvm,kernel=/guest/generic/kernel,memory=512 \
    --load none --stages --format json";

/// Runs it, and gives its one row.
fn row(machine: &Machine, line: &str, limit: Duration) -> Value {
    let output = machine.run_within(line, limit).unwrap();
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let results: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout));
    let outcome = &results["rows"][0]["outcome"]["Ok"];
    assert!(outcome.is_object(), "{results:#}");
    outcome.clone()
}

/// Every number once, and the stages of nearly all; what was coalesced was counted.
fn check(outcome: &Value, ticks: u64) {
    let (sent, received, stages) = (&outcome["sent"], &outcome["received"], &outcome["stages"]);
    assert_eq!((sent["ticks"].as_u64(), received["ticks"].as_u64()), (Some(ticks), Some(ticks)));
    assert_eq!((&received["lost"], &received["before_sent"]), (&0.into(), &0.into()), "{received:#}");
    let number = |value: &Value| value.as_u64().unwrap();
    // Each wake-up but the end's own found a tick, or those that had merged.
    let (wake_ups, coalesced) = (number(&received["wake_ups"]), number(&received["coalesced"]));
    assert!(wake_ups + coalesced >= ticks, "{wake_ups} wake-ups, {coalesced} coalesced");
    assert!(number(&received["interrupts"]) <= ticks + 1);
    let names: Vec<&str> =
        stages["stages"].as_array().unwrap().iter().map(|one| one["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["sent", "irqfd", "injection", "handler", "receiver", "work"]);
    let (complete, all) = (number(&stages["complete"]), number(&stages["ticks"]));
    println!("{ticks} ticks, {coalesced} coalesced, stages of {complete} of {all} complete");
    for stage in stages["stages"].as_array().unwrap() {
        println!("{stage}");
    }
    assert!(all == ticks && complete * 100 >= all * 99, "{complete} of {all}");
    assert_eq!(
        (&outcome["is_emulated"], &outcome["accelerator"]),
        (&true.into(), &"kvm-svm (nested)".into())
    );
}

#[test]
fn every_tick_gets_through_an_irqfd_to_the_guests_user_space() {
    peers::standstill::once_more(every_tick);
}

fn every_tick() {
    let machine =
        Settings::default().program(Path::new(BINARY)).program(Path::new("/usr/bin/chrt")).start().unwrap();
    // Its virtual CPU is pushed aside for some ticks now and then, from the middle on.
    let hog = "chrt -f 60 taskset 2 sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'";
    let alone = machine.run_within(&format!("time {hog}"), Duration::from_secs(20)).unwrap();
    println!("the hog alone: {}", alone.stderr);
    assert!(alone.success(), "{}{}", alone.stdout, alone.stderr);
    let planted = format!(
        "{RUN} --time 4s --output /ticks.json >/ticks.txt 2>&1 & sleep 8; \
         while [ -e /proc/$! ]; do {hog}; sleep 0.5; done; cat /ticks.txt >&2; cat /ticks.json"
    );
    let outcome = row(&machine, &planted, Duration::from_secs(240));
    check(&outcome, 4000);
    let worst = &outcome["worst"];
    println!("{worst}");
    assert_eq!(worst["stages"][0][0], "injection", "{worst:#}");
    // It has its priority from its own first instructions on, so that it may begin as an ordinary one.
    let cause = &worst["parts"][0]["cause"];
    let hog = cause["real-time-thread"].as_str().or(cause["other-thread"].as_str());
    assert!(hog.is_some_and(|who| who.starts_with("sh ")), "{worst:#}");
}

#[test]
#[ignore = "a minute of ticks: make test-tti"]
fn sixty_thousand_ticks() {
    let machine = Settings::default().program(Path::new(BINARY)).start().unwrap();
    let outcome = row(&machine, &format!("{RUN} --time 60s"), Duration::from_secs(600));
    check(&outcome, 60_000);
}
