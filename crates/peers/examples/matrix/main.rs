//! Runs the tests that work with QEMU, guests, DPDK, Open vSwitch and OVN against the builds of other releases of Debian:
//! `make test-matrix`. Arguments are the sets to run; all otherwise. What came out is in
//! `docs/results/support-matrix.json`, and docs/support-matrix.md shows it.

mod page;
mod root;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use peers::chosen::{KERNEL, OPENVSWITCH, OVN, QEMU, TESTPMD};
use root::{Builds, Set, Versions};
use serde::{Deserialize, Serialize};

type Failed = Box<dyn std::error::Error>;

/// What cargo runs of each set, each with the part of the names of its tests.
const TESTS: &[&[&str]] = &[
    &["-p", "tautline", "--test", "switch", "guests::"],
    &["-p", "tautline", "--test", "switch", "dpdk::"],
    &["-p", "tautline", "--test", "switch", "ovsdb::"],
    &["-p", "tautline", "--test", "switch", "recovery_drivers::"],
    &["-p", "tautline", "--test", "crypto"],
    &["-p", "tautline-port", "--test", "virtio_user", "--test", "virtio_user_ovs"],
    &[
        "-p",
        "tautline-peers",
        "--test",
        "guest",
        "--test",
        "guest_testpmd",
        "--test",
        "ovs",
        "--test",
        "testpmd",
    ],
    &["-p", "tautline-vhost-user", "--test", "qemu"],
    &["-p", "tautline-vhost-user", "--test", "testpmd"],
    &["-p", "tautline-traffic", "--test", "testpmd"],
];

/// A test of how another build is named, which the variables would name already.
const NAMES_ITS_OWN: &str = "another_build_is_what_runs";

/// All sets that were run, each as it was run last.
#[derive(Default, Serialize, Deserialize)]
struct Results {
    sets: Vec<Outcome>,
}

/// One set's builds, and its tests.
#[derive(Serialize, Deserialize)]
struct Outcome {
    set: String,
    date: String,
    builds: Versions,
    passed: Vec<String>,
    failed: Vec<String>,
}

fn main() -> Result<(), Failed> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let file = repository.join("docs/results/support-matrix.json");
    let mut results: Results = match std::fs::read(&file) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => Results::default(),
    };
    let unknown = wanted.iter().find(|name| root::SETS.iter().all(|set| set.name != **name));
    if let Some(name) = unknown {
        return Err(format!("no set is named {name}; sets: {:?}", root::SETS.map(|set| set.name)).into());
    }
    for set in root::SETS.iter().filter(|set| wanted.is_empty() || wanted.iter().any(|name| name == set.name))
    {
        let outcome = run(set, root::unpack(set)?)?;
        println!(
            "{}: {} passed, {} failed {:?}",
            set.name,
            outcome.passed.len(),
            outcome.failed.len(),
            outcome.failed
        );
        results.sets.retain(|other| other.set != outcome.set);
        results.sets.push(outcome);
        results.sets.sort_by_key(|outcome| root::SETS.iter().position(|set| set.name == outcome.set));
        std::fs::write(&file, serde_json::to_string_pretty(&results)? + "\n")?;
        page::write(&repository.join("docs/support-matrix.md"), &results)?;
    }
    match results.sets.iter().all(|outcome| outcome.failed.is_empty()) {
        true => Ok(()),
        false => Err("not every test passed with every set".into()),
    }
}

fn run(set: &Set, builds: Builds) -> Result<Outcome, Failed> {
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    for arguments in TESTS {
        println!("{}: cargo test {}", set.name, arguments.join(" "));
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "--locked", "--no-fail-fast"]).args(*arguments);
        command.args(["--", "--test-threads", "1", "--skip", NAMES_ITS_OWN]);
        command.env(QEMU, &builds.qemu).env(KERNEL, &builds.kernel);
        command.env(TESTPMD, &builds.testpmd).env(OPENVSWITCH, &builds.open_vswitch).env(OVN, &builds.ovn);
        let output = command.stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let before = (passed.len(), failed.len());
        for (name, verdict) in text.lines().filter_map(verdict) {
            match verdict {
                "ok" => passed.push(name.to_owned()),
                "FAILED" => failed.push(name.to_owned()),
                _ => {}
            }
        }
        // A program that did not build, or ended in the middle of a test.
        let none = (passed.len(), failed.len()) == before;
        if none || (!output.status.success() && failed.len() == before.1) {
            failed.push(format!("cargo test {} ended with {}", arguments.join(" "), output.status));
        }
    }
    let date = Command::new("date").args(["-u", "+%F"]).output()?.stdout;
    Ok(Outcome {
        set: set.name.into(),
        date: String::from_utf8(date)?.trim().into(),
        builds: builds.versions,
        passed,
        failed,
    })
}

/// A test's name and its verdict in a line of the test harness: `test NAME ... ok`.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.split(" - ").next()?, verdict.split(',').next()?.trim()))
}
