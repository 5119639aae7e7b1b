//! Wake-ups as cyclictest measures them, on CPUs that load shares and on CPUs of a partition, in a machine under load.

use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

use measure::statistics::median;
use measure::{EnvironmentRecord, Histogram, Results};
use peers::Guest;

/// Load in the background: the name, and the commands that start it. There are more threads than CPUs of the machine,
/// and no CPU is named for any of them.
type Load = (&'static str, &'static str);

const NAMES: [&str; 3] = ["load", "dd", "iperf3"];
const LOADS: [Load; 4] = [
    ("none", "true"),
    (
        "cpu",
        "printf '#!/bin/sh\nwhile :; do :; done\n' >/bin/load; chmod +x /bin/load
         for _ in 1 2 3 4 5 6; do /bin/load & done",
    ),
    ("memory", "for _ in 1 2 3 4 5 6; do dd if=/dev/zero of=/dev/null bs=16M & done"),
    (
        "network",
        "for port in 5201 5202 5203; do iperf3 -s -D -p $port; done; sleep 2
         for port in 5201 5202 5203; do iperf3 -c 127.0.0.1 -t 3600 -p $port & done",
    ),
];

/// Counts the switches to threads that measure (SCHED_FIFO 80 is 19 in the kernel) and to vCPUs, by what ran before.
const TRIGGER: &str =
    "hist:keys=common_cpu,next_comm,prev_comm:size=2048 if next_prio==19||next_comm==\"CPU 0/KVM\"";
const SWITCHES: &str = "/sys/kernel/tracing/events/sched/sched_switch";

/// Arguments by which QEMU's threads have names.
pub const NAMED_THREADS: [&str; 2] = ["-name", "machine,debug-threads=on"];

/// Lets the machine's CPUs 0 and 3 run before others on the host, which may have fewer CPUs than the machine. The figures
/// are then more about the machine, and less about its host; nothing that a test asserts depends on it.
pub fn prefer_measured_cpus(guest: &Guest) {
    for task in std::fs::read_dir(format!("/proc/{}/task", guest.id())).unwrap().flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if ["CPU 0/TCG", "CPU 3/TCG"].contains(&name.trim()) {
            let _ = Command::new("renice").args(["-n", "-20", "-p"]).arg(task.file_name()).output();
        }
    }
}

/// Switches of a CPU to one thread.
#[derive(Clone, Copy, Default)]
struct Switches {
    all: u64,
    /// Those of them before which a thread of the load ran.
    displacing: u64,
}

impl Switches {
    /// The switches to the thread of this name, from what the kernel has counted.
    fn of(counted: &str, cpu: &str, thread: &str) -> Self {
        let mut switches = Switches::default();
        for line in counted.lines() {
            let _ = switches.add(line, cpu, thread);
        }
        switches
    }

    fn add(&mut self, line: &str, cpu: &str, thread: &str) -> Option<()> {
        let (keys, count) = line.strip_prefix("{ ")?.split_once(" } hitcount:")?;
        let key = |name: &str| keys.split(", ").find_map(|key| Some(key.split_once(name)?.1.trim()));
        if (key("common_cpu:")?, key("next_comm:")?) == (cpu, thread) {
            let count: u64 = count.split_whitespace().next()?.parse().ok()?;
            self.all += count;
            self.displacing += if NAMES.contains(&key("prev_comm:")?) { count } else { 0 };
        }
        Some(())
    }

    /// The share before which a thread of the load ran.
    fn displaced(self) -> f64 {
        self.displacing as f64 / self.all as f64
    }

    /// Under load, most switches to a thread on a shared CPU displace a thread of the load, and none on a partition's.
    fn check(self, load: &str, is_shared: bool) {
        let Switches { all, displacing } = self;
        assert!(all > 0, "{load}: nothing was measured");
        match load != "none" && is_shared {
            true => assert!(self.displaced() > 0.3, "{load}: {displacing} of {all} switches"),
            false => assert_eq!(displacing, 0, "{load}: of {all} switches"),
        }
    }
}

/// Starts the load and waits until it runs.
fn start(guest: &Guest, commands: &str) {
    guest.must(&format!("({commands}) >/dev/null 2>&1 & sleep 4"));
}

fn end_load(guest: &Guest) {
    guest.run(&format!("killall {}", NAMES.join(" "))).unwrap();
}

/// Counts anew.
fn count(guest: &Guest) {
    guest.must(&format!("cd {SWITCHES}; echo '!{TRIGGER}' >trigger 2>/dev/null; echo '{TRIGGER}' >trigger"));
}

/// What was counted.
fn counted(guest: &Guest) -> String {
    guest.must(&format!("cat {SWITCHES}/hist"))
}

/// Counts under each load, while threads measure on CPU 0, which is shared, and on CPU 3, which is a partition's.
pub fn check_while_measuring(guest: &Guest) {
    let of = |counted: &str| ["0", "3"].map(|cpu| Switches::of(counted, cpu, "tautline"));
    let begin = Instant::now();
    count(guest);
    while of(&counted(guest)).iter().any(|switches| switches.all < 100) {
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing measures: {}", counted(guest));
        std::thread::sleep(Duration::from_millis(200));
    }
    for (load, commands) in LOADS {
        start(guest, commands);
        count(guest);
        guest.must("sleep 2");
        let [shared, alone] = of(&counted(guest));
        end_load(guest);
        println!(
            "load {load}: of {} switches on a shared CPU {:.1} % displaced it, of {} on a partition's {:.1} %",
            shared.all,
            100.0 * shared.displaced(),
            alone.all,
            100.0 * alone.displaced()
        );
        shared.check(load, true);
        alone.check(load, false);
    }
}

/// The wake-ups of one environment under one load.
struct Wakeups {
    load: &'static str,
    /// The environment, as on the command line.
    environment: String,
    /// The median of each trial, in ns.
    medians_ns: Vec<f64>,
    all: Histogram,
    /// Periods that went by while a wake-up was late.
    missed: u64,
    /// Switches to the thread that measures, or to the guest's vCPU.
    switches: Switches,
}

impl Wakeups {
    /// The share of all periods that passed without a wake-up within 1 ms.
    fn late(&self) -> f64 {
        let late: u64 = self.all.buckets_ns().filter(|(ns, _)| *ns > 1_000_000).map(|(_, count)| count).sum();
        (late + self.missed) as f64 / (self.all.count() + self.missed) as f64
    }

    fn is_shared(&self) -> bool {
        !self.environment.contains("partition")
    }
}

/// The head of the table of which [`Wakeups`] are rows.
const HEAD: &str = "| load | where | median [least, most] of trials, µs | 99 % | maximum | later than 1 ms | displaced load |";

impl fmt::Display for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: f64| ns / 1e3;
        let least = self.medians_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.medians_ns.iter().copied().fold(0.0, f64::max);
        write!(
            f,
            "| {} | {} | {:.0} [{:.0}, {:.0}] | {:.0} | {:.0} | {:.1} % | {:.1} % |",
            self.load,
            self.environment,
            us(median(&self.medians_ns).unwrap()),
            us(least),
            us(most),
            us(self.all.quantile_ns(0.99) as f64),
            us(self.all.max_ns() as f64),
            100.0 * self.late(),
            100.0 * self.switches.displaced(),
        )
    }
}

/// How long to measure.
#[derive(Clone, Copy)]
pub struct Effort {
    /// The starts of each environment.
    pub blocks: u32,
    /// The trials in each start.
    pub rounds: u32,
    /// The limit for one load.
    pub limit: Duration,
}

/// Measures all environments under each load, prints the table, and checks what displaced the load.
pub fn measure(guest: &Guest, environments: &str, effort: Effort) {
    let Effort { blocks, rounds, limit } = effort;
    println!("figures of an emulated CPU\n{HEAD}");
    for (load, commands) in LOADS {
        start(guest, commands);
        count(guest);
        let line = format!(
            "tautline compare --quick --only wakeup.idle --wakeup-trial 250ms --blocks {blocks} --rounds {rounds} \
             --environments {environments} --output /tmp/run.json"
        );
        let output = guest.run_within(&line, limit).unwrap();
        let counted = counted(guest);
        end_load(guest);
        assert!(output.success(), "{load}: {}{}", output.stdout, output.stderr);
        let results: Results = serde_json::from_str(&guest.must("cat /tmp/run.json")).unwrap();
        for EnvironmentRecord { name, spec, .. } in &results.environments {
            let thread = if spec.starts_with("vm") { "CPU 0/KVM" } else { "tautline" };
            let cpu = if spec.contains("partition") { "3" } else { "0" };
            let mut wakeups = Wakeups {
                load,
                environment: spec.clone(),
                medians_ns: Vec::new(),
                all: Histogram::new(),
                missed: 0,
                switches: Switches::of(&counted, cpu, thread),
            };
            for trial in results.trials.iter().filter(|trial| trial.environment == *name) {
                wakeups.medians_ns.push(trial.outcome.value);
                wakeups.all.merge(trial.outcome.histogram.as_ref().unwrap());
                wakeups.missed += trial.outcome.missed;
            }
            println!("{wakeups}");
            wakeups.switches.check(load, wakeups.is_shared());
        }
    }
}
