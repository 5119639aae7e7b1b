//! `tautline kvm costs` where KVM is real, and where it is not.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kvm::costs::{Costs, ROWS};
use peers::nested::{Machine, Settings};

use crate::phases::Phases;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

#[test]
fn every_row_is_measured_in_the_nested_machine() {
    peers::standstill::once_more(every_row);
}

fn every_row() {
    let mut phases = Phases::begin();
    let machine = Settings::default().program(Path::new(BINARY)).start().unwrap();
    phases.end("the machine is up");
    machine.must(&format!("echo hist:keys=reason >{USER_EXITS}/trigger"));
    measure(&machine, "tautline kvm costs --samples 200 --format json --output /costs.json");
    writes_to_an_ioeventfd_stay_in_the_kernel(&machine);
    phases.end("kvm costs");
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
    // An exit costs more than none.
    assert!(least("stamps") < least("cpuid"));

    let table = machine.must("tautline report /costs.json");
    println!("{table}");
    assert!(table.contains("Emulated CPU") && table.contains("Virtual IPI"), "{table}");
    compared(&machine, 1);
    phases.end("as a group of compare");
}

const USER_EXITS: &str = "/sys/kernel/tracing/events/kvm/kvm_userspace_exit";

/// As KVM's tracepoint counted the exits to user space for a port: those of the three rows that make one for each of their
/// 232 samples, and one at the end of each of some programs. A row of ioeventfd's that made them too would double them.
fn writes_to_an_ioeventfd_stay_in_the_kernel(machine: &Machine) {
    let counts =
        machine.must(&format!("cat {USER_EXITS}/hist; echo '!hist:keys=reason' >{USER_EXITS}/trigger"));
    // KVM_EXIT_IO.
    let of_ports = counts.lines().find(|line| line.starts_with("{ reason:") && line.contains(" 2 }"));
    let count = of_ports.and_then(|line| line.split_whitespace().last()).and_then(|word| word.parse().ok());
    let count: u64 = count.unwrap_or_else(|| panic!("{counts}"));
    println!("{count} exits to user space for a port");
    assert!((3 * 232..4 * 232).contains(&count), "{counts}");
}

/// Runs a command that measures, and gives what it wrote.
fn measure(machine: &Machine, line: &str) -> String {
    let output = machine.run_within(line, Duration::from_secs(200)).unwrap();
    assert!(output.success(), "{}\n{}\n{}", output.stdout, output.stderr, machine.console());
    output.stdout
}

/// The group `kvm` of `compare` has a metric for each row, with its distribution, once for each block.
fn compared(machine: &Machine, blocks: usize) {
    let line = format!(
        "tautline compare --tables --only kvm --quick --blocks {blocks} --environments host --output /compare.json --quiet"
    );
    let said = measure(machine, &line);
    assert!(said.contains("(vmexit: cpuid)"), "{said}");
    let file = machine.pull(Path::new("/compare.json")).unwrap();
    let results: measure::Results = serde_json::from_slice(&file).unwrap();
    assert_eq!((results.metrics.len(), results.absences.len()), (ROWS.len(), 0), "{:?}", results.absences);
    assert_eq!(results.trials.iter().filter(|trial| trial.verdict.counts()).count(), blocks * ROWS.len());
}

#[test]
#[ignore = "what repeats: make test-nested-long"]
fn every_row_is_measured_again_in_each_block() {
    peers::standstill::once_more(|| {
        let machine = Settings::default().program(Path::new(BINARY)).start().unwrap();
        compared(&machine, 2);
    });
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
    let output = Command::new(BINARY)
        .args(["compare", "--tables", "--only", "kvm", "--quick", "--quiet"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{:?} {errors}", start.elapsed());
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("/dev/kvm") && errors.contains("nothing could be measured"), "{said}{errors}");
}
