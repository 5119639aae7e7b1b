//! `tautline kvm costs` where KVM is real, and where it is not.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kvm::costs::{Costs, ROWS};
use peers::nested::Settings;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

#[test]
fn every_row_is_measured_in_the_nested_machine() {
    peers::standstill::once_more(every_row);
}

fn every_row() {
    let machine = Settings::default().program(Path::new(BINARY)).start().unwrap();
    let limit = Duration::from_secs(200);
    let line = "tautline kvm costs --samples 200 --format json --output /costs.json";
    let output = machine.run_within(line, limit).unwrap();
    assert!(output.success(), "{}\n{}", output.stderr, machine.console());
    let file = machine.pull(Path::new("/costs.json")).unwrap();
    peers::schema::fits(&serde_json::from_slice(&file).unwrap());
    let costs: Costs = serde_json::from_slice(&file).unwrap();
    assert!(costs.emulated && costs.accelerator.starts_with("kvm-svm"), "{}", costs.accelerator);
    assert!(costs.alignment.is_some(), "the machine's CPUs share one counter");
    let ids: Vec<&str> = costs.rows.iter().map(|cost| cost.id.as_str()).collect();
    assert_eq!(ids, ROWS.iter().map(|row| row.id).collect::<Vec<_>>());
    for cost in &costs.rows {
        let latency = cost.latency.as_ref().unwrap_or_else(|| panic!("{}: {:?}", cost.id, cost.failure));
        println!("{:>24} {:>8} {:>8} {:>8}", cost.id, latency.median_ns(), latency.max_ns(), latency.count());
    }
    // The least of each, which no noise lowers.
    let least = |id: &str| {
        let cost = costs.rows.iter().find(|cost| cost.id == id).unwrap();
        cost.latency.as_ref().unwrap().min_ns()
    };
    // An exit costs more than none, and one that user space handles more than one of the kernel.
    assert!(least("stamps") < least("cpuid"));
    assert!(least("port-write-ioeventfd") < least("port-write-user"));

    // The same as a group of `compare`: a metric for each row, with its distribution.
    let line =
        "tautline compare --only kvm --quick --blocks 2 --environments host --output /compare.json --quiet";
    let output = machine.run_within(line, limit).unwrap();
    assert!(output.success(), "{}\n{}", output.stderr, machine.console());
    assert!(output.stdout.contains("(vmexit: cpuid)"), "{}", output.stdout);
    let file = machine.pull(Path::new("/compare.json")).unwrap();
    let results: measure::Results = serde_json::from_slice(&file).unwrap();
    assert_eq!((results.metrics.len(), results.absences.len()), (ROWS.len(), 0), "{:?}", results.absences);
    assert_eq!(results.trials.iter().filter(|trial| trial.verdict.counts()).count(), 2 * ROWS.len());

    let table = machine.run_within("tautline kvm costs --samples 20", limit).unwrap().expect_success();
    println!("{table}");
    assert!(table.contains("Emulated CPU") && table.contains("Virtual IPI"), "{table}");
}

/// The machine of the test either measures, or says within ten seconds what its /dev/kvm cannot do.
#[test]
fn a_kvm_that_cannot_do_it_is_named() {
    let start = Instant::now();
    let output = Command::new(BINARY).args(["kvm", "costs", "--samples", "10"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{:?} {errors}", start.elapsed());
    if output.status.success() {
        return;
    }
    assert_eq!(output.status.code(), Some(1));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(errors.contains("/dev/kvm") && errors.trim().lines().count() == 1, "{errors}");
    // As a group of `compare` it is asked once, not once for each row.
    let output =
        Command::new(BINARY).args(["compare", "--only", "kvm", "--quick", "--quiet"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{:?} {errors}", start.elapsed());
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("/dev/kvm") && errors.contains("nothing could be measured"), "{said}{errors}");
}
