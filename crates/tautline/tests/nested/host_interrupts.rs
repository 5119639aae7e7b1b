//! `tautline host interrupts`: a virtio device through irqfd and a device behind the emulated IOMMU are both forwarded
//! here, where no hardware posts interrupts; their exits are counted.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::{Duration, Instant};

use peers::nested::{Inner, InnerSettings, Machine, NetworkPath, Settings};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(60);
/// In the machine: asks for the guest's counts, which only the host of both can read.
const ASK: &str = "touch /want; while [ ! -e /have ]; do sleep 0.05; done; cat /have; rm -f /have /want";

/// The device whose interrupts go through irqfd, and the one that is handed on.
const PATHS: [NetworkPath; 2] = [NetworkPath::VhostNet, NetworkPath::Direct];

/// Hands the guest's counts over when they are asked for.
fn answer(machine: &Machine, inner: &Inner) {
    let deadline = Instant::now() + LIMIT;
    while !machine.run("test -e /want").unwrap().success() {
        assert!(Instant::now() < deadline, "nobody asks: {}", machine.must("cat /proof.err"));
    }
    let counts = inner.must("cat /proc/interrupts");
    machine.push(counts.as_bytes(), Path::new("/have")).unwrap();
    while machine.run("test -e /want").unwrap().success() {
        assert!(Instant::now() < deadline, "the answer is not taken");
    }
}

#[test]
fn a_virtio_device_and_an_assigned_one_are_forwarded() {
    peers::standstill::once_more(both_devices);
}

fn both_devices() {
    let machine = Settings::default().program(Path::new(BINARY)).card_to_hand_on().start().unwrap();
    PATHS.iter().for_each(|path| machine.prepare(*path).unwrap());
    let settings = PATHS.iter().fold(InnerSettings::default(), |settings, path| settings.network(*path));
    let inner = machine.guest(&settings).unwrap();
    for path in PATHS {
        inner.bring_up(path).unwrap();
        inner.must(&format!("ping -c 1 -W 10 {}", path.machine_address()));
    }
    let pid = inner.id().unwrap();

    let proof = format!(
        "tautline host interrupts --pid {pid} --time 12s --guest '{ASK}' --format json --output /proof.json 2>/proof.err"
    );
    let proof = machine.begin(&proof, 4 * LIMIT).unwrap();
    answer(&machine, &inner);
    // The devices work: each answer is an interrupt of the guest. Unlike counts tell their vectors apart.
    for (path, count) in PATHS.into_iter().zip([300, 600]) {
        println!("{}", machine.must(&format!("ping -q -c {count} -i 0.005 -W 5 {}", path.guest_address())));
    }
    answer(&machine, &inner);
    println!("{}", proof.wait().unwrap().expect_success());

    let found: Value = serde_json::from_slice(&machine.pull(Path::new("/proof.json")).unwrap()).unwrap();
    assert_eq!(found["schema"], "tautline-host-interrupts/1");
    assert_eq!((&found["dropped"], found["other_guests"].as_array().unwrap().len()), (&0.into(), 0));
    let lines = found["lines"].as_array().unwrap();
    let exits = found["exits"]["reasons"].as_array().unwrap();
    let exits: u64 = exits.iter().map(|exit| exit["count"].as_u64().unwrap()).sum();
    for (device, least) in [("input", 250), ("rx", 500)] {
        let about = |line: &&Value| line["about"].as_str().unwrap().contains(device);
        let line = lines.iter().find(about).unwrap_or_else(|| panic!("{device}: {lines:#?}"));
        println!("{line:#}");
        assert_eq!(line["path"], "forwarded", "{lines:#?}");
        let count = |what: &str| line[what].as_u64().unwrap();
        let (taken, delivered, injected) = (count("taken"), count("delivered"), count("injected"));
        assert!(taken >= least && delivered >= least && injected >= least * 4 / 5, "{line:#}");
        assert!(exits > injected, "{exits} exits: {line:#}");
    }
    // The timer's too: nothing here posts interrupts.
    let timer = lines.iter().find(|line| line["line"] == "LOC").unwrap();
    assert_ne!(timer["path"], "direct", "{timer:#}");
    assert!(!found["features"].as_array().unwrap().is_empty());
    assert!(machine.must("ls /sys/kernel/tracing/instances").is_empty());

    // A guest that cannot be asked, and a process that is none.
    let output =
        machine.run(&format!("tautline host interrupts --pid {pid} --guest 'echo no' --time 1s")).unwrap();
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("no /proc/interrupts"), "{}", output.stderr);
    let output = machine.run("tautline host interrupts --pid 999999 --guest true --time 1s").unwrap();
    assert!(output.status == 1 && output.stderr.contains("999999"), "{}", output.stderr);
    assert!(machine.must("ls /sys/kernel/tracing/instances").is_empty());
}
