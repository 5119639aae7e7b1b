//! `tautline kvm worst` of a guest under KVM on arm64 names the threads that were planted on its virtual CPU's CPU.

use std::time::Duration;

use peers::nested::ArmMachine;
use serde_json::Value;

use super::guest_within::Guest;

const LIMIT: Duration = Duration::from_secs(120);

/// Short loops on the virtual CPU's CPU, again and again until the watch ends.
const PLANTED: &str = "for n in 1 2 3; do taskset 2 sh /hog & done; sleep 0.2";

pub fn a_planted_cause_is_named(machine: &ArmMachine) {
    machine.must("echo 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done' >/hog && sh /hog");
    let guest = Guest::start(machine, "virtio-net-pci,romfile=", "on");
    guest.sends(machine);
    // All of QEMU on one CPU. Its threads have the least weight, so that a wake-up takes no CPU from another thread.
    machine.must(
        "for task in $(ls /proc/$(cat /guest.pid)/task); do taskset -p 2 $task; renice -n 19 -p $task; done",
    );
    let worst = machine
        .begin(
            &format!(
                "taskset -p 1 $$ >/dev/null
                 tautline kvm worst --pid $(cat /guest.pid) --time 5s --format json --output /worst.json >/worst.txt 2>&1 &
                 worst=$!; sleep 2; while [ -e /proc/$worst ]; do {PLANTED}; sleep 0.3; done; wait $worst"
            ),
            LIMIT,
        )
        .unwrap();
    let output = worst.wait().unwrap();
    let text = machine.must("cat /worst.txt");
    println!("{text}");
    assert!(output.success(), "{output:?}");
    let found: Value = serde_json::from_str(&machine.must("cat /worst.json")).unwrap();
    peers::schema::fits(&found);
    let longer = found["longer"].as_array().unwrap_or_else(|| panic!("{found:#}"));
    // The emulated machine's timer takes long as well, sometimes longer. Of all else the planted cause comes first.
    let is_timer = |one: &&Value| {
        let name = one["cause"]["interrupt"].as_str();
        name.is_some_and(|name| name.contains("timer")) || one["cause"] == "timer-storm"
    };
    let first = longer.iter().find(|one| !is_timer(one));
    let named = |one: &Value| one["cause"]["other-thread"].as_str().is_some_and(|who| who.starts_with("sh "));
    assert!(first.is_some_and(named), "{found:#}");
    guest.end(machine);
}
