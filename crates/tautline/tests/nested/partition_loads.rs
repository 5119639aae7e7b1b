//! What load on the other CPUs does to wake-ups on a CPU that load shares and on a partition's CPU: of a native thread in
//! the manner of cyclictest, and of the virtual CPU of a guest under real KVM.
//!
//! The machine's four CPUs share fewer CPUs of its host, so a time says little. The measure is the scheduler's, in the
//! machine's kernel: which thread ran on the CPU before the one that was woken. The host's speed and its other work have
//! no part in that. The waits of woken threads are shown beside it, and nothing is asserted of them.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use measure::median_interval;
use measure::statistics::median;
use peers::nested::{Machine, Settings};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

/// The limit of a command, and of the time until both threads measure: the CPUs are emulated.
const LIMIT: Duration = Duration::from_secs(900);

/// Figures of each row: an interval of the median at 95 % takes six.
const WINDOWS: usize = 10;
/// The machine's seconds of a window: some 400 wake-ups.
const WINDOW: &str = "0.4";

/// Load in the background: the name, and the commands that start it. There are more threads than the partition leaves CPUs,
/// and no CPU is named for any of them.
type Load = (&'static str, &'static str);

const NAMES: [&str; 3] = ["load", "dd", "iperf3"];
const LOADS: [Load; 4] = [
    ("none", "true"),
    (
        "CPU",
        "printf '#!/bin/sh\nwhile :; do :; done\n' >/bin/load; chmod +x /bin/load
         for _ in 1 2 3 4; do /bin/load & done",
    ),
    ("memory", "for _ in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=16M & done"),
    (
        "network",
        "for port in 5201 5202 5203; do iperf3 -s -D -p $port; done; sleep 1
         for port in 5201 5202 5203; do iperf3 -c 127.0.0.1 -t 3600 -p $port & done",
    ),
];

/// What is measured: its name in the table, the two commands, and how the kernel knows its thread.
struct Subject {
    name: &'static str,
    /// On CPU 0, which load shares, and on CPU 3, which is a partition's.
    commands: [&'static str; 2],
    thread: &'static str,
    /// A condition on the event `sched_waking`. SCHED_FIFO 80 is 19 in the kernel.
    woken: &'static str,
}

const NATIVE: Subject = Subject {
    name: "native",
    commands: ["host --cpus 0", "partition:3"],
    thread: "tautline",
    woken: "comm==\"tautline\"&&prio==19",
};
const GUEST: Subject = Subject {
    name: "guest",
    commands: [
        "vm:accel=kvm,kernel=/guest/kernel,memory=256 --cpus 0",
        "vm:accel=kvm,kernel=/guest/kernel,memory=256,partition=3",
    ],
    thread: "CPU 0/KVM",
    woken: "comm==\"CPU 0/KVM\"",
};
const CPUS: [&str; 2] = ["0", "3"];

const TRACING: &str = "/sys/kernel/tracing";
/// A histogram with an entry for each wait, of which there are thousands under load.
const WAITS: &str = "hist:keys=common_cpu,before,us:size=65536";

impl Subject {
    /// From waking a thread to the switch to it, with the thread that ran before. Set once, before any load.
    fn count(&self, machine: &Machine) {
        let Subject { woken, .. } = self;
        machine.must(&format!(
            "cd {TRACING}; echo 'waited u64 us; char[16] before' >synthetic_events
             echo 'hist:keys=pid:woken=common_timestamp.usecs if {woken}' >events/sched/sched_waking/trigger
             echo 'hist:keys=next_pid:us=common_timestamp.usecs-$woken:onmatch(sched.sched_waking).waited($us,prev_comm)' \
                 >events/sched/sched_switch/trigger
             echo '{WAITS}' >events/synthetic/waited/trigger"
        ));
    }
}

/// What the kernel has counted since it began, and since the machine started.
#[derive(Clone, Default)]
struct Counts {
    /// How many wake-ups, by the CPU, whether a thread of the load ran before, and the wait in µs.
    wakeups: BTreeMap<(String, bool, u64), u64>,
    /// Of the thread on each of [`CPUS`]: ns in which the thread was ready and did not run.
    stolen_ns: [u64; 2],
    at_ns: u64,
}

impl Counts {
    /// What a window's command has printed.
    fn parse(text: &str) -> Self {
        let mut counts = Counts::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["at", seconds] => counts.at_ns = (seconds.parse::<f64>().unwrap() * 1e9) as u64,
                ["ready", place, _, waited, _] => {
                    counts.stolen_ns[place.parse::<usize>().unwrap()] += waited.parse::<u64>().unwrap();
                }
                ["Dropped:", dropped] => assert_eq!(*dropped, "0", "the histogram is full"),
                _ => {
                    if let Some((key, count)) = Self::wakeup(line) {
                        *counts.wakeups.entry(key).or_default() += count;
                    }
                }
            }
        }
        counts
    }

    /// `{ common_cpu: 0, before: load, us: 7 } hitcount: 3`
    fn wakeup(line: &str) -> Option<((String, bool, u64), u64)> {
        let (keys, count) = line.strip_prefix("{ ")?.split_once("} hitcount:")?;
        let key = |name: &str| Some(keys.split(", ").find_map(|key| key.trim().split_once(name))?.1.trim());
        let before = NAMES.contains(&key("before:")?);
        let key = (key("common_cpu:")?.into(), before, key("us:")?.parse().ok()?);
        Some((key, count.trim().parse().ok()?))
    }

    /// The wake-ups on a CPU since an earlier reading, with their number: by the wait, and those that displaced the load.
    fn since(&self, earlier: &Self, cpu: &str) -> (Vec<(u64, u64)>, u64) {
        let mut waits = Vec::new();
        let mut displacing = 0;
        for (key @ (_, before, us), count) in self.wakeups.iter().filter(|((of, ..), _)| of == cpu) {
            let count = count - earlier.wakeups.get(key).unwrap_or(&0);
            waits.push((*us, count));
            displacing += if *before { count } else { 0 };
        }
        waits.sort_unstable();
        (waits, displacing)
    }
}

/// A figure of each window.
#[derive(Default)]
struct Figures(Vec<f64>);

impl Figures {
    /// The interval that has the median in 95 % of cases or more.
    fn interval(&self) -> (f64, f64) {
        median_interval::interval(&self.0).expect("there are enough windows")
    }
}

impl fmt::Display for Figures {
    /// The median and its interval.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.interval();
        let middle = median(&self.0).unwrap_or(f64::NAN);
        let text =
            |value: f64| if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
        write!(f, "{} [{}, {}]", text(middle), text(low), text(high))
    }
}

/// A row: one thread on one CPU under one load.
#[derive(Default)]
struct Row {
    /// In percent: wake-ups before which the load ran.
    displaced: Figures,
    /// From waking to the switch, in µs.
    median_us: Figures,
    high_us: Figures,
    most_us: Figures,
    /// In percent of the time: ready, and not running.
    stolen: Figures,
}

impl Row {
    fn add(&mut self, earlier: &Counts, later: &Counts, place: usize) {
        let (waits, displacing) = later.since(earlier, CPUS[place]);
        let all: u64 = waits.iter().map(|(_, count)| count).sum();
        assert!(all >= 20, "only {all} wake-ups on CPU {}", CPUS[place]);
        let quantile = |share: f64| {
            let mut rest = (all as f64 * share).ceil() as u64;
            let value = waits.iter().find(|(_, count)| {
                rest = rest.saturating_sub(*count);
                rest == 0
            });
            value.map_or(0.0, |(us, _)| *us as f64)
        };
        self.displaced.0.push(100.0 * displacing as f64 / all as f64);
        self.median_us.0.push(quantile(0.5));
        self.high_us.0.push(quantile(0.99));
        self.most_us.0.push(quantile(1.0));
        let stolen = later.stolen_ns[place] - earlier.stolen_ns[place];
        self.stolen.0.push(100.0 * stolen as f64 / (later.at_ns - earlier.at_ns) as f64);
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { displaced, median_us, high_us, most_us, stolen } = self;
        write!(f, "| {displaced} | {median_us} | {high_us} | {most_us} | {stolen} |")
    }
}

/// Counts under one load, and returns the rows of the shared CPU and of the partition's.
fn under(machine: &Machine, load: Load, threads: &[String; 2]) -> [Row; 2] {
    let (_, commands) = load;
    machine.must(&format!("echo '{WAITS}:clear' >{TRACING}/events/synthetic/waited/trigger"));
    machine.must(&format!("({commands}) >/dev/null 2>&1 & sleep 2"));
    let [first, second] = threads;
    let read = format!(
        "echo at $(cut -d' ' -f1 /proc/uptime); echo ready 0 $(cat {first}/schedstat); \
         echo ready 1 $(cat {second}/schedstat); cat {TRACING}/events/synthetic/waited/hist"
    );
    let line = format!("for _ in $(seq 0 {WINDOWS}); do {read}; echo next; sleep {WINDOW}; done");
    let output = machine.run_within(&line, LIMIT).unwrap().expect_success();
    machine.run(&format!("killall {}", NAMES.join(" "))).unwrap();
    let readings: Vec<Counts> = output.split_terminator("next\n").map(Counts::parse).collect();
    assert_eq!(readings.len(), WINDOWS + 1);
    let mut rows = [Row::default(), Row::default()];
    for (place, row) in rows.iter_mut().enumerate() {
        readings.windows(2).for_each(|pair| row.add(&pair[0], &pair[1], place));
    }
    rows
}

/// The folders of both threads in `/proc`, when both measure.
fn threads(machine: &Machine, subject: &Subject) -> [String; 2] {
    let Subject { thread, .. } = subject;
    let line = format!(
        "for task in /proc/[0-9]*/task/*; do
             [ \"$(cat $task/comm 2>/dev/null)\" = '{thread}' ] || continue
             echo $task $(sed -n 's/^Cpus_allowed_list://p' $task/status) $(sed 's/.*) //' $task/stat | cut -d' ' -f38)
         done; cat {TRACING}/events/synthetic/waited/hist"
    );
    let begin = Instant::now();
    loop {
        let said = machine.run_within(&line, LIMIT).unwrap().expect_success();
        let priority = if subject.name == "native" { "80" } else { "0" };
        let found = CPUS.map(|cpu| {
            let mut tasks = said.lines().filter_map(|line| {
                let words: Vec<&str> = line.trim_end().rsplitn(3, ' ').collect();
                (words.len() == 3 && words[..2] == [priority, cpu]).then(|| words[2].to_owned())
            });
            tasks.next()
        });
        let counts = Counts::parse(&said);
        let enough =
            |cpu: &str| counts.since(&Counts::default(), cpu).0.iter().map(|(_, n)| n).sum::<u64>() > 100;
        if let ([Some(first), Some(second)], true) = (found, CPUS.into_iter().all(enough)) {
            return [first, second];
        }
        assert!(begin.elapsed() < LIMIT, "nothing measures: {said}");
    }
}

/// The rows of a subject under each load: shared, and partition.
fn measured(machine: &Machine, subject: &Subject) -> Vec<[Row; 2]> {
    subject.count(machine);
    let compare = "exec tautline compare --quick --blocks 1 --rounds 1 --timeout 3600s --only wakeup.idle \
                   --wakeup-trial 3000s --environments";
    let jobs = subject.commands.map(|environment| {
        machine.begin(&format!("{compare} {environment} >/dev/null 2>/tmp/errors"), LIMIT).unwrap()
    });
    let threads = threads(machine, subject);
    let mut all = Vec::new();
    for load in LOADS {
        let rows = under(machine, load, &threads);
        for (cpu, row) in ["shared", "partition"].into_iter().zip(&rows) {
            println!("| {} | {} | {cpu} {row}", subject.name, load.0);
        }
        all.push(rows);
    }
    // Both end with the machine.
    drop(jobs);
    all
}

/// Each load moves the thread on the shared CPU, and none the thread on the partition.
fn check(subject: &Subject, rows: &[[Row; 2]]) {
    let [[idle, _], ..] = rows else { panic!("no rows") };
    for ((load, _), [shared, alone]) in LOADS.iter().zip(rows) {
        assert_eq!(alone.displaced.interval(), (0.0, 0.0), "{} under {load}", subject.name);
        if *load != "none" {
            let (least, most) = (shared.displaced.interval().0, idle.displaced.interval().1);
            assert!(least > most, "{} under {load}: {}", subject.name, shared.displaced);
        }
    }
}

fn load_moves_shared_and_no_partition(subject: &Subject) {
    peers::standstill::once_more(|| {
        let machine = Settings::default().size(4, 2048).program(Path::new(BINARY)).start().unwrap();
        machine.must("mkdir -p /tmp; mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        println!(
            "figures of an emulated CPU\n| thread | load | CPU | displaced the load, % | waited, µs: 50 % | 99 % | most | \
             ready and not running, % |\n|---|---|---|---|---|---|---|---|"
        );
        check(subject, &measured(&machine, subject));
    });
}

#[test]
#[ignore = "some minutes under load: make test-nested-long"]
fn load_moves_a_thread_on_a_shared_cpu_and_none_on_a_partition() {
    load_moves_shared_and_no_partition(&NATIVE);
}

#[test]
#[ignore = "some minutes under load, with two guests under an emulated KVM: make test-nested-long"]
fn load_moves_a_guest_on_a_shared_cpu_and_none_on_a_partition() {
    load_moves_shared_and_no_partition(&GUEST);
}
