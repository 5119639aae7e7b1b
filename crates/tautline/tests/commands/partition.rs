//! CPUs taken from everything else, in a booted machine of four emulated CPUs with cgroup v2, under load.

use std::path::Path;
use std::time::Duration;

use measure::{EnvironmentKind, Results};
use peers::Guest;
use peers::guest::Settings;

use crate::wakeups::{CPU_LOAD, NATIVE, NO_LOAD, check, measured};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(120);
/// Of each row of the short table: the interval of its median leaves the least and the most out.
const WINDOWS: usize = 10;

/// What a partition changes and must leave as it was.
const SNAPSHOT: &str = "grep -sH '' /sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/cpuset.cpus.effective; find /sys/fs/cgroup -type d";

fn boot() -> Guest {
    let guest = Settings::default().size(4, 1024).program(Path::new(BINARY)).start().unwrap();
    guest.must("mkdir -p /tmp && mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tracefs tracefs /sys/kernel/tracing");
    guest
}

/// Runs `compare` of one metric, and returns what it says of an error.
fn refusal(guest: &Guest, environments: &str) -> (i32, String) {
    let line = format!("tautline compare --quick --only os.syscall --blocks 1 --environments {environments}");
    let output = guest.run_within(&line, LIMIT).unwrap();
    (output.status, output.stderr)
}

/// The tasks that ran on a CPU during the trace, by name.
fn ran_on(guest: &Guest, cpu: u8) -> String {
    guest.must(&format!(
        "sed -n 's/.*next_comm=\\(.*\\) next_pid=.*/\\1/p' /sys/kernel/tracing/per_cpu/cpu{cpu}/trace | sort | uniq -c"
    ))
}

/// The command of the page, with the options that a test needs.
fn command_of_the_page() -> String {
    const PAGE: &str = include_str!("../../../../docs/compare.md");
    const MARKER: &str = "<!-- test: run by crates/tautline/tests/commands/partition.rs -->\n```sh\n";
    let command = PAGE.split(MARKER).nth(1).expect("the page has the command").lines().next().unwrap();
    command.replace("--only os,wakeup", "--only os.fork --tables --output /tmp/run.json")
}

/// Under load, only the agent and the CPU's own kernel threads run on the partition's CPU; the load runs on the others.
fn alone_under_load(guest: &Guest) {
    guest.must(CPU_LOAD.commands);
    // The trace ends when the partition is removed: what runs on its CPU afterwards does not count.
    guest.must(
        "cd /sys/kernel/tracing && echo 8192 >buffer_size_kb && echo 1 >events/sched/sched_switch/enable && \
         echo 'traceoff if path ~ \"*/tautline-*\"' >events/cgroup/cgroup_rmdir/trigger",
    );
    // The load is on the CPU until the partition is made: the trace begins anew after that.
    let began = "until grep -qsx isolated /sys/fs/cgroup/tautline-*/cpuset.cpus.partition; do sleep 0.02; done; \
                 echo >/sys/kernel/tracing/trace";
    let compare = command_of_the_page();
    let output = guest.run_within(&format!("({began}) & {compare}"), 3 * LIMIT).unwrap();
    let (shared, alone) = (ran_on(guest, 0), ran_on(guest, 3));
    println!("figures of an emulated CPU\n{}", output.stdout);
    println!("ran on CPU 0:\n{shared}ran on CPU 3:\n{alone}");
    assert!(output.success(), "{}", output.stderr);
    assert_eq!(guest.must("cat /sys/kernel/tracing/tracing_on"), "0\n", "the removal ended the trace");
    assert!(shared.contains("load") && shared.contains("tautline"), "{shared}");
    assert!(alone.contains("tautline"), "{alone}");
    for task in alone.lines().filter_map(|line| line.trim().split_once(' ')).map(|(_, task)| task) {
        assert!(task.starts_with("tautline") || task.contains("/3"), "{task} ran on the partition's CPU");
    }
    let results: Results = serde_json::from_str(&guest.must("cat /tmp/run.json")).unwrap();
    assert_eq!(results.plan.cpus, [0], "as many as the partition has");
    let partition = results.environments.iter().find(|one| one.kind == EnvironmentKind::Partition).unwrap();
    let fact = partition.facts.iter().find(|(key, _)| key == "partition").map(|(_, value)| value.as_str());
    assert!(
        fact.is_some_and(|fact| fact.starts_with("CPUs 3, isolated by /sys/fs/cgroup/tautline-")),
        "{fact:?}"
    );
    guest.must("echo 0 >/sys/kernel/tracing/events/enable; killall load");
}

/// The partition of a run that is killed goes with it.
fn gone_after_kill_9(guest: &Guest, before: &str) {
    let killed = guest.must(
        "tautline compare --quick --only os.syscall --blocks 1000 --environments partition:2-3 >/dev/null 2>&1 & run=$!
         until grep -qsx isolated /sys/fs/cgroup/tautline-*/cpuset.cpus.partition; do sleep 0.05; done
         sleep 1; cat /sys/fs/cgroup/cpuset.cpus.effective /sys/fs/cgroup/tautline-*/cpuset.cpus.effective
         kill -9 $run
         for _ in $(seq 100); do ls -d /sys/fs/cgroup/tautline-* 2>/dev/null || break; sleep 0.1; done",
    );
    assert!(killed.starts_with("0-1\n2-3\n"), "{killed}");
    assert_eq!(guest.must(SNAPSHOT), before, "after kill -9");
}

/// What no partition can be made of is refused with the reason that the kernel gives, and nothing is left.
fn refused_with_the_reason(guest: &Guest, before: &str) {
    let (status, said) = refusal(guest, "partition:0-3");
    assert!(status == 2 && said.contains("no CPU of --cpus is left"), "{status}: {said}");
    // Another cgroup has named the CPU.
    guest.must("echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control && mkdir /sys/fs/cgroup/other");
    guest.must("echo 2-3 >/sys/fs/cgroup/other/cpuset.cpus");
    let (status, said) = refusal(guest, "partition:3");
    println!("{said}");
    assert_eq!(status, 1);
    for part in ["taking CPUs 3", "/sys/fs/cgroup/other names CPUs 2-3", "no other cgroup"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    guest.must("rmdir /sys/fs/cgroup/other && echo -cpuset >/sys/fs/cgroup/cgroup.subtree_control");
    let (status, said) = refusal(guest, "partition:9");
    println!("{said}");
    assert_eq!(status, 1);
    assert!(said.contains("online"), "{said}");
    assert_eq!(guest.must(SNAPSHOT), before, "after refusals");
    // Neither without cgroups nor with cgroup v1.
    guest.must("umount /sys/fs/cgroup");
    let (_, said) = refusal(guest, "partition:3");
    assert!(said.contains("mount -t cgroup2"), "{said}");
    guest.must("mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpuset");
    guest.must("mount -t cgroup -o cpuset cpuset /sys/fs/cgroup/cpuset");
    let (status, said) = refusal(guest, "partition:3");
    println!("{said}");
    assert!(status == 1 && said.contains("cgroup v1 has no partitions"), "{said}");
}

#[test]
fn a_partition_is_alone_on_its_cpus_and_leaves_nothing() {
    peers::standstill::once_more(|| {
        let guest = boot();
        let before = guest.must(SNAPSHOT);
        alone_under_load(&guest);
        assert_eq!(guest.must(SNAPSHOT), before, "after a run");
        gone_after_kill_9(&guest, &before);
        refused_with_the_reason(&guest, &before);
    });
}

/// The short form of the table in `docs/compare.md`, which `nested/partition_loads.rs` measures with further loads and
/// with guests.
#[test]
fn load_displaces_wake_ups_on_a_shared_cpu_and_none_on_a_partition() {
    peers::standstill::once_more(|| {
        let loads = [NO_LOAD, CPU_LOAD];
        check(&NATIVE, &loads, &measured(&boot(), &NATIVE, &loads, WINDOWS));
    });
}
