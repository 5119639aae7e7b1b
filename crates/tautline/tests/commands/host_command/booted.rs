//! Every rule that can be changed at run time, really written, read back and put back: in a booted machine of four
//! emulated CPUs with a stock kernel, two of them set aside.

#[path = "booted/cpu_lists.rs"]
mod cpu_lists;
#[path = "booted/grub.rs"]
mod grub;
#[path = "booted/irqbalance.rs"]
mod irqbalance;
#[path = "booted/realtime.rs"]
mod realtime;
#[path = "booted/verify.rs"]
mod verify;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peers::Guest;
use peers::guest::Settings;

use super::BINARY;

const LIMIT: Duration = Duration::from_secs(120);

/// Everything that `apply` may touch, with its content. Left out is what the kernel counts, and `min_free_kbytes`,
/// which it calculates anew whenever transparent huge pages are switched (the rule says so).
const SNAPSHOT: &str = "grep -sH '' /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity \
    /sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/*/cpumask /proc/sys/kernel/* \
    /proc/sys/vm/* /sys/kernel/mm/*/* /sys/kernel/mm/hugepages/*/* /sys/devices/system/node/node*/hugepages/*/* \
    /sys/devices/system/machinecheck/*/ignore_ce /sys/devices/system/clocksource/*/current_clocksource \
    /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us /sys/devices/system/cpu/smt/control \
    /sys/devices/system/cpu/online /sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/*/cpuset.cpus* | \
    grep -vE 'vm/min_free_kbytes|kernel/(random|ns_last_pid|pty|perf_event_max|ostype)|full_scans|pages_(sharing|volatile|scanned)|khugepaged|fs/cgroup/[^:]*effective'; \
    find /sys/fs/cgroup -type d";

/// One CPU is set aside at boot, from managed interrupts alone.
const ISOLATED: &str = "isolcpus=managed_irq,3";
const ASKED: &str = "--isolate 2-3 --guest-memory 64M";
const ACCEPT: &str = "--accept domain-isolation --accept workqueues --accept rt-throttling --accept smt";

/// The distribution's, from where scripts/setup.sh unpacks it.
fn irqbalance_program() -> PathBuf {
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    folder.join("tautline/irqbalance/usr/sbin/irqbalance")
}

/// With these words on the kernel's command line.
fn boot(settings: Settings, words: &str) -> Guest {
    let guest = settings
        .size(4, 768)
        .program(Path::new(BINARY))
        .program(Path::new("/usr/bin/strace"))
        .program(&irqbalance_program())
        .parameters(words)
        .start()
        .unwrap();
    guest.must("mkdir -p /tmp /var/lib && mount -t cgroup2 cgroup2 /sys/fs/cgroup");
    guest
}

/// What docs/host.md tells to type on the host, in its order, with shorter measurements.
fn commands_of_the_page(guest: &Guest, before: &str) {
    const PAGE: &str = include_str!("../../../../../docs/host.md");
    const MARKER: &str =
        "<!-- test: run by crates/tautline/tests/commands/host_command/booted.rs -->\n```sh\n";
    let blocks: Vec<&str> =
        PAGE.split(MARKER).skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3, "apply, verify, undo");
    for line in blocks.iter().flat_map(|block| block.lines()) {
        let line = line.replace("2-5", "2-3").replace(" --time 60s", "");
        let line = line.replace("host verify", "host verify --time 100ms --blocks 1 --rules vm-statistics");
        let output = guest.run_within(&line, LIMIT).unwrap();
        // What this machine's interrupt controllers refuse is told.
        let refused = output.stdout.contains("interrupts: not done");
        assert!(output.success() || refused, "{line}: {}\n{}", output.stdout, output.stderr);
    }
    same(&snapshot(guest), before, "after the page's commands");
}

fn run(guest: &Guest, line: &str) -> String {
    let output = guest.run_within(line, LIMIT).unwrap();
    assert!(output.success(), "{line}: {}\n{}\n{}", output.status, output.stdout, output.stderr);
    output.stdout
}

fn snapshot(guest: &Guest) -> String {
    run(guest, SNAPSHOT)
}

#[track_caller]
fn same(after: &str, before: &str, when: &str) {
    let differ: Vec<_> = after.lines().zip(before.lines()).filter(|(one, other)| one != other).collect();
    assert!(after == before, "{when}: {differ:#?}");
}

/// The rules of a plan that can be written now.
fn written_now(plan: &serde_json::Value) -> Vec<&str> {
    let sets = |rule: &&serde_json::Value| {
        rule["changes"].as_array().unwrap().iter().any(|change| change["how"] == "set")
    };
    let rules = plan["rules"].as_array().unwrap().iter().filter(sets);
    rules.map(|rule| rule["rule"].as_str().unwrap()).collect()
}

fn plan(guest: &Guest) -> serde_json::Value {
    serde_json::from_str(&run(guest, &format!("tautline host plan {ASKED} --format json"))).unwrap()
}

#[test]
fn every_run_time_rule_is_written_verified_and_put_back() {
    peers::standstill::once_more(every_run_time_rule);
}

fn every_run_time_rule() {
    let guest = boot(Settings::default(), ISOLATED);
    let before = snapshot(&guest);
    assert!(before.lines().count() > 100, "{before}");

    let planned_before = plan(&guest);
    let planned = written_now(&planned_before);
    for rule in [
        "domain-isolation",
        "interrupts",
        "workqueues",
        "rt-throttling",
        "timer-migration",
        "soft-lockup",
        "vm-statistics",
        "transparent-huge-pages",
        "huge-pages",
    ] {
        assert!(planned.contains(&rule), "{rule} of {planned:?}");
    }

    // Interrupts that this machine's controllers cannot move are refused by the kernel, and told.
    let apply = format!("tautline host apply {ASKED} --all {ACCEPT}");
    let output = guest.run_within(&apply, LIMIT).unwrap();
    println!("{}{}", output.stdout, output.stderr);
    for line in output.stdout.lines().filter(|line| line.contains("not done")) {
        assert!(line.starts_with("interrupts: not done"), "{line}");
    }
    assert_ne!(snapshot(&guest), before);
    let left = plan(&guest);
    assert!(written_now(&left).iter().all(|rule| *rule == "interrupts"), "{left:#}");
    // The kernel itself says that the CPUs are out of the scheduler's reach.
    assert_eq!(run(&guest, "cat /sys/fs/cgroup/tautline-isolated/cpuset.cpus.partition").trim(), "isolated");

    println!("{}", run(&guest, "tautline host undo"));
    same(&snapshot(&guest), &before, "after undo");

    // The same machine, for it takes its time to boot.
    commands_of_the_page(&guest, &before);
    let begin = Instant::now();
    verify::every_rule_gets_an_interval(&guest, &before, &planned);
    println!("verify --ablate: {:?}", begin.elapsed());
    verify::what_somebody_undid_is_named(&guest, &before, &planned_before);
    println!("verify in all: {:?}", begin.elapsed());
}

#[test]
fn what_kill_9_left_is_put_back() {
    peers::standstill::once_more(kill_9);
}

fn kill_9() {
    let guest = boot(Settings::default(), ISOLATED);
    let before = snapshot(&guest);
    verify::killed_in_the_middle(&guest, &before);
    let planned = plan(&guest);
    // How many interrupts are aimed at these CPUs differs from time to time, and with it the number of writes.
    let rules: Vec<&str> = written_now(&planned).into_iter().filter(|rule| *rule != "interrupts").collect();
    let apply = format!("tautline host apply {ASKED} --rules {} {ACCEPT}", rules.join(","));
    let count = "strace -f --seccomp-bpf -qq -e trace=write -o /tmp/log ";
    let _ = guest.run_within(&format!("{count}{apply}; tautline host undo"), LIMIT).unwrap();
    let writes: usize = run(&guest, "grep -c 'write(' /tmp/log").trim().parse().unwrap();
    same(&snapshot(&guest), &before, "after the counted run");
    let points = super::kill_points();
    assert!(writes > points, "{writes}");
    for point in 0..points {
        let number = 1 + point * (writes - 1) / (points - 1);
        let strace = format!(
            "strace -f -qq -e trace=write -e inject=write:signal=SIGKILL:when={number} -o /tmp/log {apply}"
        );
        let killed = guest.run_within(&strace, LIMIT).unwrap();
        assert!(!killed.success(), "write {number} was not reached: {}", killed.stdout);
        run(&guest, "tautline host undo");
        same(&snapshot(&guest), &before, &format!("killed at write {number}"));
        println!("killed at write {number} of {writes}");
    }
}
