//! `tautline kvm trace` of a guest whose exits, and whose time, are known.

use std::time::{Duration, Instant};

use peers::nested::ArmMachine;
use serde_json::Value;

const EXITS: u64 = 20_000;
const BURNED_MS: u64 = 400;
const LIMIT: Duration = Duration::from_secs(240);

/// What `kvm trace` said of the guest, and what the guest's process said.
struct Traced {
    trace: Value,
    elapsed_ns: f64,
    stolen_ns: f64,
}

impl Traced {
    fn vcpu(&self, name: &str) -> f64 {
        self.trace["vcpus"][0][name].as_f64().unwrap_or_else(|| panic!("{name}: {:#}", self.trace))
    }
}

fn wait_until(machine: &ArmMachine, condition: &str) {
    let deadline = Instant::now() + LIMIT;
    while !machine.run(condition).unwrap().success() {
        let said = || machine.must("cat /*.out /*.err");
        assert!(Instant::now() < deadline, "never true: {condition}: {}", said());
    }
}

/// Runs `known_guest` with these arguments on the second CPU, and traces it from before its first exit to its end.
/// Meanwhile `beside` runs.
fn traced(machine: &ArmMachine, arguments: &str, beside: &str) -> Traced {
    machine.must("rm -f /go /guest.out /guest.pid /trace.json");
    let guest = format!("taskset 2 known_guest {arguments} >/guest.out 2>&1 & echo $! >/guest.pid; wait $!");
    let guest = machine.begin(&guest, LIMIT).unwrap();
    wait_until(machine, "grep -q ready /guest.out");
    let trace = "tautline kvm trace --pid $(cat /guest.pid) --time 600s --format json --output /trace.json 2>/trace.err";
    let trace = machine.begin(trace, LIMIT).unwrap();
    // The last of its triggers.
    wait_until(
        machine,
        "grep -qs hist /sys/kernel/tracing/instances/tautline*/events/tautline*/irqfd/trigger",
    );
    machine.must(&format!("{beside} touch /go"));
    // The end of the traced process ends the trace.
    guest.wait().unwrap().expect_success();
    machine.must("[ ! -e /beside.pid ] || kill $(cat /beside.pid)");
    trace.wait().unwrap().expect_success();
    let said = machine.must("cat /guest.out");
    let number = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        line.unwrap_or_else(|| panic!("no {name} in {said}"))
    };
    let trace: Value = serde_json::from_str(&machine.must("cat /trace.json")).unwrap();
    peers::schema::fits(&trace);
    assert_eq!(trace["lost"], 0, "{trace:#}");
    Traced { trace, elapsed_ns: number("elapsed"), stolen_ns: number("stolen") }
}

/// A store to an address without memory is an exit of the class DABT_LOW, which user space handles.
pub fn exits_are_counted(machine: &ArmMachine) {
    let traced = traced(machine, &format!("exits {EXITS}"), "");
    let reasons = traced.trace["reasons"].as_array().unwrap();
    let stores = reasons.iter().find(|row| row["vcpu"] == 0 && row["reason"] == "DABT_LOW");
    let stores = stores.unwrap_or_else(|| panic!("no DABT_LOW in {:#}", traced.trace));
    let count = stores["count"].as_f64().unwrap();
    println!("{count} stores counted; {:#}", traced.trace["vcpus"]);
    assert!((count / EXITS as f64 - 1.0).abs() < 0.05, "{count} stores counted, {EXITS} made");
    assert!(stores["user_ns"].as_f64().unwrap() > 0.0);
    let parts = ["guest_ns", "kernel_ns", "user_ns", "halted_ns"].map(|name| traced.vcpu(name));
    let share = parts.iter().sum::<f64>() / traced.elapsed_ns;
    assert!((share - 1.0).abs() < 0.05, "{parts:?} are {share:.3} of {} ns", traced.elapsed_ns);
    for name in ["before_ns", "traced_ns", "after_ns"] {
        let overhead = traced.trace["overhead"][name].as_f64();
        assert!(overhead.is_some_and(|ns| ns > 0.0), "{name}: {}", traced.trace["not_measured"]);
    }
    assert!(machine.must("cd /sys/kernel/tracing; cat dynamic_events; ls instances").is_empty());
}

/// The kernel accounts a guest's time to its thread's guest time, and to the guest what another thread took of it.
pub fn time_is_accounted(machine: &ArmMachine) {
    let burned = BURNED_MS as f64 * 1e6;
    let hog = "taskset 2 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $! >/beside.pid;";
    let shared = traced(machine, &format!("burn {BURNED_MS}"), hog);
    let [guest, host, waited] =
        ["accounted_guest_ns", "accounted_host_ns", "waited_ns"].map(|name| shared.vcpu(name));
    println!("guest {guest}, host {host}, waited {waited}, stolen {}", shared.stolen_ns);
    assert!(host < 0.1 * burned, "{host} ns of host time");
    assert!((0.25..0.75).contains(&(guest / burned)), "{guest} ns of guest time, half of {burned} expected");
    assert!(
        ((guest + shared.stolen_ns) / burned - 1.0).abs() < 0.1,
        "{guest} and {} stolen",
        shared.stolen_ns
    );
    assert!((shared.stolen_ns - waited).abs() < 0.1 * burned, "{} stolen, {waited} waited", shared.stolen_ns);
}
