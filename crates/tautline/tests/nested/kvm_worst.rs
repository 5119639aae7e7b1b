//! `tautline kvm worst` names what was really planted on the CPU of a virtual CPU.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use peers::nested::{InnerSettings, Settings};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(120);

/// What takes the second CPU for a while, and the cause that is to be named.
const PLANTED: [(&str, &str); 2] = [
    ("chrt -f 60 taskset 2 sh /hog", "real-time-thread"),
    // Three at a time: more than the CPU can end would starve the guest.
    ("hogs=; for n in 1 2 3; do taskset 2 sh /hog & hogs=\"$hogs $!\"; done; wait $hogs", "other-thread"),
];

#[test]
fn what_was_planted_is_named() {
    peers::standstill::once_more(planted_and_named);
}

fn planted_and_named() {
    let machine =
        Settings::default().program(Path::new(BINARY)).program(Path::new("/usr/bin/chrt")).start().unwrap();
    machine.must("echo 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done' >/hog && sh /hog");
    let inner = machine.guest(&InnerSettings::default()).unwrap();
    let qemu = inner.id().unwrap();
    machine.must(&format!("for task in /proc/{qemu}/task/*; do taskset -p 2 $(basename $task); done"));
    // A thread of this policy that wakes up takes no CPU from an ordinary one.
    machine.must(&format!("chrt -a -b -p 0 {qemu}"));
    for (planted, cause) in PLANTED {
        // Something to wake up for, and what is planted: both before the measurement begins, and until it has ended.
        inner.must("rm -f /stop; (while [ ! -e /stop ]; do sleep 0.02; done) >/dev/null 2>&1 &");
        // The shell that plants and the measurement stay off that CPU: else they are causes themselves.
        machine.must(&format!(
            "rm -f /stop; taskset -p 1 $$ >/dev/null
             (while [ ! -e /stop ]; do {planted}; sleep 0.3; done) >/dev/null 2>&1 &"
        ));
        let line = format!(
            "taskset 1 tautline kvm worst --pid {qemu} --time 4s --format json --output /worst.json >/worst.txt 2>&1"
        );
        machine.run_within(&line, LIMIT).unwrap().expect_success();
        machine.must("touch /stop");
        inner.must("touch /stop");
        println!("{}", machine.must("cat /worst.txt"));
        let found: Value = serde_json::from_slice(&machine.pull(Path::new("/worst.json")).unwrap()).unwrap();
        peers::schema::fits(&found);
        let longer = found["longer"].as_array().unwrap_or_else(|| panic!("{found:#}"));
        // The emulated machine's timer interrupts take long as well, sometimes longer. Of all else it comes first.
        let is_timer = |one: &&Value| one["cause"]["interrupt"] == "timer" || one["cause"] == "timer-storm";
        let first = longer.iter().find(|one| !is_timer(one));
        let named = |one: &Value| one["cause"][cause].as_str().is_some_and(|who| who.starts_with("sh "));
        assert!(first.is_some_and(named), "{found:#}");
    }
}
