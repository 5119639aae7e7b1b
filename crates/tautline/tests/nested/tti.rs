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

/// Some tens of milliseconds of a CPU.
const BURN: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";

/// Runs it, and gives its one row.
fn row(machine: &Machine, line: &str, limit: Duration) -> Value {
    let output = machine.run_within(line, limit).unwrap();
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let results: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout));
    peers::schema::fits(&results);
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
    let hog = format!("chrt -f 60 taskset 2 sh -c '{BURN}'");
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
    // A tick that is in the guest when its CPU is taken is late where it then is. Those of each millisecond after it wait
    // for their injection, the first of them nearly as long.
    let stage = worst["stages"][0][0].as_str().unwrap();
    assert!(["injection", "handler", "receiver"].contains(&stage), "{worst:#}");
    let stages = outcome["stages"]["stages"].as_array().unwrap();
    let injection = stages.iter().find(|one| one["stage"] == "injection").unwrap();
    assert!(
        2 * injection["max_ns"].as_u64().unwrap() > worst["latency_ns"].as_u64().unwrap(),
        "{injection}, {worst:#}"
    );
    // It has its priority from its own first instructions on, so that it may begin as an ordinary one, and it is known by the
    // name that it had when it got the CPU: that of one of the programs that it executes one after the other.
    let cause = &worst["parts"][0]["cause"];
    let hog = cause["real-time-thread"].as_str().or(cause["other-thread"].as_str());
    let names = ["chrt ", "taskset ", "sh "];
    assert!(hog.is_some_and(|who| names.iter().any(|name| who.starts_with(name))), "{worst:#}");
}

#[test]
#[ignore = "a minute of ticks: make test-tti"]
fn sixty_thousand_ticks() {
    let machine = Settings::default().program(Path::new(BINARY)).start().unwrap();
    let outcome = row(&machine, &format!("{RUN} --time 60s"), Duration::from_secs(600));
    check(&outcome, 60_000);
}

/// A delay, by what really makes it, and the stage that it is in.
struct Planted {
    stage: &'static str,
    /// Before the command, and behind it.
    wrapped: &'static str,
    arguments: &'static str,
    /// Beside it, again and again: priority, mask of CPUs, script.
    hog: Option<(u32, u32, &'static str)>,
    /// Who had the CPU, where the trace tells.
    blamed: &'static str,
}

/// A QEMU of its own with a second monitor, in the other one's place: first in the PATH.
const MONITORED: &str = "/monitored/qemu-system-x86_64";
const WITH_MONITOR: &str = "#!/bin/sh\nexec /usr/bin/qemu-system-x86_64 \"$@\" -monitor pipe:/monitor\n";

const PLANTED: [Planted; 5] = [
    // The timer late.
    Planted { stage: "sent", wrapped: "", arguments: "", hog: Some((90, 1, "BURN")), blamed: "beside" },
    // The irqfd delayed: the source's 200th write, between its stamp and the doorbell.
    Planted {
        stage: "irqfd",
        wrapped: "strace -f --seccomp-bpf -qq -o /dev/null -e trace=write \
            -e inject=write:delay_enter=80000:when=200",
        arguments: "",
        hog: None,
        blamed: "",
    },
    // The virtual CPU preempted.
    Planted { stage: "injection", wrapped: "", arguments: "", hog: Some((60, 2, "BURN")), blamed: "beside" },
    // Another handler of the guest is slow: an unknown NMI, which its kernel writes to the serial console with
    // interrupts disabled.
    Planted {
        stage: "handler",
        wrapped: "env PATH=/monitored:$PATH",
        arguments: "",
        hog: Some((90, 1, "echo nmi >/monitor.in")),
        blamed: "",
    },
    // The receiver has no real-time priority, and needs most of a CPU on which another program computes.
    Planted {
        stage: "receiver",
        wrapped: "",
        arguments: "--priority 0 --load cpu --work 6ms",
        hog: None,
        blamed: "",
    },
];

/// One after the other, in one machine. A tick every 10 ms: what delays one is over a few ticks later.
#[test]
#[ignore = "some minutes: make test-tti"]
fn planted_delays_are_blamed_on_their_stages() {
    let programs = [BINARY, "/usr/bin/chrt", "/usr/bin/strace"].map(Path::new);
    let machine = programs.into_iter().fold(Settings::default(), Settings::program).start().unwrap();
    machine.push(WITH_MONITOR.as_bytes(), Path::new(MONITORED)).unwrap();
    machine.must("chmod +x /monitored/*; mkfifo /monitor.in /monitor.out");
    // The kernel's thread that joins pages took a CPU for 14 ms, longer than one of the delays that are planted.
    machine.must("echo never >/sys/kernel/mm/transparent_hugepage/enabled");
    let mut wrong = Vec::new();
    for Planted { stage, wrapped, arguments, hog, blamed } in PLANTED {
        let (priority, cpus, script) = hog.unwrap_or((1, 3, "sleep 60"));
        // Once ticks are traced, so that the guest has booted, until it is killed.
        let script = script.replace("BURN", BURN);
        let wait = "until ls -d /sys/kernel/tracing/instances/*; do sleep 0.2; done";
        let script = format!("#!/bin/sh\n{wait}\nwhile :; do\nsleep 0.7\n{script}\ndone\n");
        machine.push(script.as_bytes(), Path::new("/beside")).unwrap();
        let run = if arguments.contains("--load") { RUN.replace("--load none", "") } else { RUN.to_owned() };
        let line = format!(
            "chrt -f {priority} taskset {cpus} /beside >/dev/null 2>&1 & \
             {wrapped} {run} {arguments} --interval 10ms --time 4s --output /ticks.json >/ticks.txt 2>&1; \
             kill $!; cat /ticks.txt >&2; cat /ticks.json"
        );
        let outcome = row(&machine, &line, Duration::from_secs(240));
        let worst = &outcome["worst"];
        println!("{stage}: {worst}");
        if worst["stages"][0][0] != stage || !worst["parts"][0]["cause"].to_string().contains(blamed) {
            wrong.push(format!("{stage}: {worst:#}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
