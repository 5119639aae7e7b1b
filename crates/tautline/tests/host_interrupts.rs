//! `tautline host interrupts`: a virtio device through irqfd is forwarded, and its exits are counted.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::{Duration, Instant};

use peers::nested::{Inner, InnerSettings, Machine, Settings};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(60);
/// In the machine: asks for the guest's counts, which only the host of both can read.
const ASK: &str = "touch /want; while [ ! -e /have ]; do sleep 0.05; done; cat /have; rm -f /have /want";

/// A tap with vhost-net, the device whose interrupts are counted.
const TAP: &str = "modprobe vhost_net; modprobe tun; ip tuntap add dev tap0 mode tap && \
    ip addr add 10.9.0.1/24 dev tap0 && ip link set tap0 up";
const NIC: &str = "-netdev tap,id=net,ifname=tap0,script=no,downscript=no,vhost=on \
    -device virtio-net-pci,netdev=net,vectors=4,romfile=";

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
fn a_virtio_device_through_irqfd_is_forwarded() {
    let machine = Settings::default().program(Path::new(BINARY)).start().unwrap();
    machine.must(TAP);
    let inner = machine.guest(&InnerSettings::default().arguments(NIC)).unwrap();
    inner.must("ip addr add 10.9.0.2/24 dev eth0 && ip link set eth0 up");
    inner.must("ping -c 1 -W 10 10.9.0.1");
    let pid = inner.id().unwrap();

    let proof = format!(
        "tautline host interrupts --pid {pid} --time 6s --guest '{ASK}' --format json --output /proof.json 2>/proof.err"
    );
    let proof = machine.begin(&proof, 4 * LIMIT).unwrap();
    answer(&machine, &inner);
    // The device works: each answer is an interrupt of the guest.
    let ping = machine.must("ping -q -c 300 -i 0.01 -W 5 10.9.0.2");
    println!("{ping}");
    answer(&machine, &inner);
    println!("{}", proof.wait().unwrap().expect_success());

    let found: Value = serde_json::from_slice(&machine.pull(Path::new("/proof.json")).unwrap()).unwrap();
    assert_eq!(found["schema"], "tautline-host-interrupts/1");
    assert_eq!((&found["dropped"], found["other_guests"].as_array().unwrap().len()), (&0.into(), 0));
    let lines = found["lines"].as_array().unwrap();
    let input = lines.iter().find(|line| line["about"].as_str().unwrap().contains("input")).unwrap();
    println!("{input:#}");
    assert!(input["taken"].as_u64().unwrap() >= 250, "{input:#}");
    assert_eq!(input["path"], "forwarded", "{lines:#?}");
    let (delivered, injected) = (input["delivered"].as_u64().unwrap(), input["injected"].as_u64().unwrap());
    assert!(delivered >= 250 && injected >= 200, "{input:#}");
    // The timer's too: nothing here posts interrupts.
    let timer = lines.iter().find(|line| line["line"] == "LOC").unwrap();
    assert_ne!(timer["path"], "direct", "{timer:#}");
    let exits = found["exits"]["reasons"].as_array().unwrap();
    let all: u64 = exits.iter().map(|exit| exit["count"].as_u64().unwrap()).sum();
    assert!(all > injected, "{exits:#?}");
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
