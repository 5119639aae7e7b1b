//! `tautline kvm trace` counts and times the exits of a guest that makes a known number.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::{Duration, Instant};

use peers::nested::{Machine, Settings};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const WRITES: usize = 20_000;
const BURNED: Duration = Duration::from_secs(1);
/// The events of the kernel that `kvm trace` uses.
const TRACED: [&str; 5] =
    ["kvm/kvm_entry", "kvm/kvm_exit", "kvm/kvm_inj_virq", "kvm/kvm_userspace_exit", "kvm/kvm_vcpu_wakeup"];
/// Prints the instances of tracefs that a trace has left.
const LEFT: &str = "cd /sys/kernel/tracing/instances; ls | grep -vx -e held-. -e shutdowns; true";
const LIMIT: Duration = Duration::from_secs(60);

/// Not a test: this very file as the traced process, in the machine.
#[test]
#[ignore = "runs in the nested machine"]
fn make_port_writes() {
    let mut guest = kvm::KnownGuest::prepare().unwrap();
    println!("ready");
    while !Path::new("/go").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let start = Instant::now();
    guest.write(WRITES).unwrap();
    println!("elapsed {}", start.elapsed().as_nanos());
    // Its threads are looked at now and then.
    std::thread::sleep(Duration::from_millis(500));
}

/// Not a test: as above, for a known time.
#[test]
#[ignore = "runs in the nested machine"]
fn burn_time() {
    let guest = kvm::KnownGuest::prepare().unwrap();
    println!("ready");
    while !Path::new("/go").exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("stolen {}", guest.burn(BURNED).unwrap().as_nanos());
    std::thread::sleep(Duration::from_millis(500));
}

/// The command of docs/why-is-my-guest-slow.md, for this process.
fn of_the_page(pid: &str) -> String {
    let page = include_str!("../../../../docs/why-is-my-guest-slow.md");
    let command = page.lines().find(|line| line.starts_with("tautline kvm trace ")).expect("it stands there");
    assert!(command.contains("--pid 4711"), "{command}");
    command.replace("4711", pid)
}

fn wait_until(machine: &Machine, condition: &str) {
    let deadline = Instant::now() + LIMIT;
    while !machine.run(condition).unwrap().success() {
        assert!(Instant::now() < deadline, "never true: {condition}: {}", machine.must("cat /*.out /*.err"));
    }
}

#[test]
fn a_known_number_of_port_writes_is_found_with_its_time() {
    peers::standstill::once_more(port_writes_are_counted);
}

fn port_writes_are_counted() {
    let own = std::env::current_exe().unwrap();
    let machine = Settings::default().program(Path::new(BINARY)).program(&own).start().unwrap();
    crate::nested_events::hold(&machine, TRACED.into_iter());
    // The watch begins before the first trace, because `kvm trace` runs guests of its own to measure its overhead.
    machine.watch_guests(|| {
        writes_are_counted_and_timed(&machine, &own);
        burned_time_is_accounted(&machine);
    });
    watched_and_counted_without_tracefs(&machine);
}

fn writes_are_counted_and_timed(machine: &Machine, own: &Path) {
    let guest = format!(
        "{} --ignored --exact --nocapture kvm_trace::make_port_writes >/guest.out 2>&1 & echo $! >/guest.pid; wait $!",
        own.file_name().unwrap().to_string_lossy()
    );
    let guest = machine.begin(&guest, LIMIT).unwrap();
    wait_until(machine, "grep -q ready /guest.out");
    // As the page has it: the guest has not begun.
    let idle = machine.must(&of_the_page("$(cat /guest.pid)"));
    assert!(idle.contains("0 exits") && idle.contains("0 events lost"), "{idle}");
    let trace = "tautline kvm trace --pid $(cat /guest.pid) --time 60s --format json --output /trace.json 2>/trace.err";
    let trace = machine.begin(trace, 2 * LIMIT).unwrap();
    // The last of its triggers.
    wait_until(
        machine,
        "grep -q active /sys/kernel/tracing/instances/tautline*/events/kvm/kvm_inj_virq/trigger",
    );
    machine.must("touch /go");
    // The end of the traced process ends the trace.
    guest.wait().unwrap().expect_success();
    trace.wait().unwrap().expect_success();
    let found: serde_json::Value =
        serde_json::from_slice(&machine.pull(Path::new("/trace.json")).unwrap()).unwrap();
    println!("{found}");
    peers::schema::fits(&found);
    let reasons = found["reasons"].as_array().unwrap();
    let port_writes = reasons.iter().find(|row| row["vcpu"] == 0 && row["reason"] == "io").unwrap();
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().unwrap() as f64;
    let count = number(port_writes, "count");
    assert!((count / WRITES as f64 - 1.0).abs() < 0.05, "{count} port writes counted, {WRITES} made");
    // The slow exit is the first: each goes to user space and back.
    assert_eq!(reasons[0], *port_writes);
    assert!(number(port_writes, "user_ns") > 0.0);
    let said = machine.must("grep elapsed /guest.out");
    let elapsed: f64 = said.split_whitespace().last().unwrap().parse().unwrap();
    let vcpu = &found["vcpus"][0];
    let parts = ["guest_ns", "kernel_ns", "user_ns", "halted_ns"].map(|name| number(vcpu, name));
    let share = parts.iter().sum::<f64>() / elapsed;
    assert!((share - 1.0).abs() < 0.05, "{parts:?} are {share:.3} of {elapsed} ns");
    assert_eq!(vcpu["ioeventfd_signals"], 0);
    assert_eq!(found["lost"], 0);
    // Each exit has a length, and the longest is no shorter than the mean.
    let lengths = port_writes["lengths"].as_array().unwrap();
    let counted: u64 = lengths.iter().map(|length| length[1].as_u64().unwrap()).sum();
    assert!((counted as f64 / count - 1.0).abs() < 0.01, "{lengths:?}");
    assert!(lengths.last().unwrap()[0].as_u64().unwrap() as f64 >= number(port_writes, "time_ns") / count);
    for name in ["before_ns", "traced_ns", "after_ns"] {
        let time = found["overhead"][name].as_f64();
        assert!(time.is_some_and(|time| time > 0.0), "{name}: {time:?}, {}", found["not_measured"]);
    }
    let drawn = machine.must("tautline report /trace.json --html /trace.html; cat /trace.html");
    assert!(drawn.contains("overhead: ") && drawn.contains("Where the time went"), "{drawn}");
    let left = machine.must("cat /sys/kernel/tracing/dynamic_events");
    assert!(left.is_empty(), "{left}");
    let left = machine.must(LEFT);
    assert!(left.is_empty(), "{left}");

    let output = machine.run("tautline kvm trace --pid 999999 --time 1s").unwrap();
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("999999"), "{}", output.stderr);
    assert!(machine.must(LEFT).is_empty());
    let output = machine.run("tautline kvm trace --domain nobody --time 1s").unwrap();
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("nobody"), "{}", output.stderr);
}

/// A guest that spins beside a program on its CPU: the kernel tells it as stolen what its thread waited meanwhile. Ticks
/// that the outer host made late are not accounted, so the guest's time has only bounds here; `crates/peers/tests/arm.rs`
/// has a machine in which it is exact.
fn burned_time_is_accounted(machine: &Machine) {
    machine.must("rm /go /guest.out /guest.pid");
    let guest = format!(
        "taskset 2 {} --ignored --exact --nocapture kvm_trace::burn_time >/guest.out 2>&1 & echo $! >/guest.pid; wait $!",
        std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy()
    );
    let guest = machine.begin(&guest, LIMIT).unwrap();
    wait_until(machine, "grep -q ready /guest.out");
    let trace = "tautline kvm trace --pid $(cat /guest.pid) --time 60s --format json --output /burned.json";
    let trace = machine.begin(trace, 2 * LIMIT).unwrap();
    wait_until(
        machine,
        "grep -q active /sys/kernel/tracing/instances/tautline*/events/kvm/kvm_inj_virq/trigger",
    );
    machine.must("taskset 2 sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $! >/hog.pid; touch /go");
    guest.wait().unwrap().expect_success();
    machine.must("kill $(cat /hog.pid)");
    trace.wait().unwrap().expect_success();
    let found: serde_json::Value =
        serde_json::from_slice(&machine.pull(Path::new("/burned.json")).unwrap()).unwrap();
    peers::schema::fits(&found);
    let number = |name: &str| found["vcpus"][0][name].as_f64().unwrap();
    let [accounted, waited] = ["accounted_guest_ns", "waited_ns"].map(number);
    let said = machine.must("grep stolen /guest.out");
    let stolen: f64 = said.split_whitespace().last().unwrap().parse().unwrap();
    let burned = BURNED.as_nanos() as f64;
    println!("{accounted} ns accounted as the guest's, {waited} waited, {stolen} stolen, {burned} burned");
    assert!(
        accounted > 0.0 && accounted + stolen < 1.05 * burned,
        "{accounted} ns of guest time, {stolen} stolen"
    );
    assert!(stolen > 0.1 * burned, "{stolen} ns stolen beside a program that takes its turns");
    // The thread waits before it enters the guest too, which steals nothing.
    assert!(stolen < 1.05 * waited, "{waited} ns waited, {stolen} stolen");
}

/// The same guest once more, this time with --live and without tracefs.
fn watched_and_counted_without_tracefs(machine: &Machine) {
    let own = std::env::current_exe().unwrap();
    // Before the guest begins: what the first one printed would be taken for its own.
    machine.must("rm /go /guest.out /guest.pid");
    let guest = format!(
        "{} --ignored --exact --nocapture kvm_trace::make_port_writes >/guest.out 2>&1 & \
         echo $! >/guest.pid; wait $!",
        own.file_name().unwrap().to_string_lossy()
    );
    let guest = machine.begin(&guest, LIMIT).unwrap();
    wait_until(machine, "grep -q ready /guest.out");
    let live = machine.must("tautline kvm trace --pid $(cat /guest.pid) --time 2500ms --live");
    // How often depends on the machine.
    assert!(live.contains("the last ") && live.contains("overhead: "), "{live}");
    machine.must("mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null; ls /sys/kernel/debug/kvm");
    machine.must("mount -t tmpfs none /sys/kernel/tracing; mount -t tmpfs none /sys/kernel/debug/tracing");
    let trace = "tautline -v kvm trace --pid $(cat /guest.pid) --time 60s --format json --output /files.json 2>/files.err";
    let trace = machine.begin(trace, 2 * LIMIT).unwrap();
    // Said after its first look.
    wait_until(machine, "grep -q counting /files.err");
    machine.must("touch /go");
    guest.wait().unwrap().expect_success();
    trace.wait().unwrap().expect_success();
    let found: serde_json::Value =
        serde_json::from_slice(&machine.pull(Path::new("/files.json")).unwrap()).unwrap();
    peers::schema::fits(&found);
    assert!(found["method"].as_str().unwrap().contains("debugfs"), "{found:#}");
    let counts = found["statistics"].as_array().unwrap();
    let exits =
        counts.iter().find(|count| count["name"] == "io_exits").unwrap_or_else(|| panic!("{found:#}"));
    let share = exits["count"].as_u64().unwrap() as f64 / WRITES as f64;
    assert!((share - 1.0).abs() < 0.05, "{found:#}");
    assert!(found["not_measured"][0].as_str().unwrap().contains("tracefs"), "{found:#}");
}
