//! Wake-ups on two CPUs of a machine with four: one that load shares, and one of a partition. The kernel counts before
//! which of them a thread of the load ran on the CPU.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use measure::median_interval;
use measure::statistics::median;
use peers::Guest;

/// The limit of a command, and of the time until both threads measure: the CPUs are emulated.
pub const LIMIT: Duration = Duration::from_secs(900);

/// The machine's seconds of a window: some 400 wake-ups.
const WINDOW: &str = "0.4";

/// Load in the background. No CPU is named for any of its threads, which are more than twice as many as the CPUs that the
/// partition leaves: the scheduler keeps none of these CPUs idle.
#[derive(Clone, Copy)]
pub struct Load {
    pub title: &'static str,
    /// The name of its threads; `None` where there are none.
    pub thread: Option<&'static str>,
    /// The shell's lines that start them.
    pub commands: &'static str,
}

/// No load, to compare with.
pub const NO_LOAD: Load = Load { title: "none", thread: None, commands: "true" };
/// Endless loops.
pub const CPU_LOAD: Load = Load {
    title: "CPU",
    thread: Some("load"),
    commands: "printf '#!/bin/sh\nwhile :; do :; done\n' >/bin/load; chmod +x /bin/load
     for _ in $(seq 8); do /bin/load & done",
};
/// The names of the threads of any load.
const NAMES: [&str; 3] = ["load", "dd", "iperf3"];

/// What is measured: its name in the table, the two commands, and how the kernel knows its thread.
pub struct Subject {
    pub name: &'static str,
    /// On CPU 0, which load shares, and on CPU 3, which is a partition's.
    pub commands: [&'static str; 2],
    pub thread: &'static str,
    /// A condition on the event `sched_waking`. SCHED_FIFO 80 is 19 in the kernel.
    pub woken: &'static str,
}

/// A thread in the manner of cyclictest.
pub const NATIVE: Subject = Subject {
    name: "native",
    commands: ["host --cpus 0", "partition:3"],
    thread: "tautline",
    woken: "comm==\"tautline\"&&prio==19",
};
const CPUS: [&str; 2] = ["0", "3"];

const TRACING: &str = "/sys/kernel/tracing";
/// A histogram with an entry for each wait, of which there are thousands under load. Counts are compared and never
/// cleared: for `:clear` the kernel allocates a further histogram, for which a small machine has no memory.
const WAITS: &str = "hist:keys=common_cpu,before,us:size=65536";

impl Subject {
    /// From waking a thread to the switch to it, with the thread that ran before. Set once, before any load.
    fn count(&self, machine: &Guest) {
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
pub struct Row {
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
///
/// The windows begin when a thread of the load has run on the shared CPU.
fn under(machine: &Guest, load: Load, threads: &[String; 2], count: usize) -> [Row; 2] {
    let Load { thread, commands, .. } = load;
    let waits = format!("{TRACING}/events/synthetic/waited/hist");
    machine.must(&format!("({commands}) >/dev/null 2>&1 &"));
    if let Some(thread) = thread {
        let there = format!("until grep -Eq 'cpu: +0, before: {thread} ' {waits}; do sleep 0.1; done");
        machine.run_within(&there, LIMIT).unwrap().expect_success();
    }
    let [first, second] = threads;
    let read = format!(
        "echo at $(cut -d' ' -f1 /proc/uptime); echo ready 0 $(cat {first}/schedstat); \
         echo ready 1 $(cat {second}/schedstat); cat {waits}"
    );
    let line = format!("for _ in $(seq 0 {count}); do {read}; echo next; sleep {WINDOW}; done");
    let output = machine.run_within(&line, LIMIT).unwrap().expect_success();
    machine.run(&format!("killall {}", NAMES.join(" "))).unwrap();
    let readings: Vec<Counts> = output.split_terminator("next\n").map(Counts::parse).collect();
    assert_eq!(readings.len(), count + 1);
    let mut rows = [Row::default(), Row::default()];
    for (place, row) in rows.iter_mut().enumerate() {
        readings.windows(2).for_each(|pair| row.add(&pair[0], &pair[1], place));
    }
    rows
}

/// The folders of both threads in `/proc`, when both measure.
fn threads(machine: &Guest, subject: &Subject) -> [String; 2] {
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

/// Measures a subject in `windows` windows under each load: the rows of the shared CPU and of the partition's.
///
/// Prints them as a table. What measures ends with the machine.
pub fn measured(machine: &Guest, subject: &Subject, loads: &[Load], windows: usize) -> Vec<[Row; 2]> {
    println!(
        "figures of an emulated CPU\n| thread | load | CPU | displaced the load, % | waited, µs: 50 % | 99 % | most | \
         ready and not running, % |\n|---|---|---|---|---|---|---|---|"
    );
    subject.count(machine);
    let compare = "exec tautline compare --quick --blocks 1 --rounds 1 --timeout 3600s --only wakeup.idle \
                   --wakeup-trial 3000s --environments";
    let jobs = subject.commands.map(|environment| {
        machine.begin(&format!("{compare} {environment} >/dev/null 2>/tmp/errors"), LIMIT).unwrap()
    });
    let threads = threads(machine, subject);
    let mut all = Vec::new();
    for load in loads {
        let rows = under(machine, *load, &threads, windows);
        for (cpu, row) in ["shared", "partition"].into_iter().zip(&rows) {
            println!("| {} | {} | {cpu} {row}", subject.name, load.title);
        }
        all.push(rows);
    }
    drop(jobs);
    all
}

/// Each load moves the thread on the shared CPU, and none the thread on the partition.
///
/// # Panics
/// A load does not, compared with the first, which is [`NO_LOAD`]; or there are fewer than six windows.
pub fn check(subject: &Subject, loads: &[Load], rows: &[[Row; 2]]) {
    let [[idle, _], ..] = rows else { panic!("no rows") };
    for (Load { title, thread, .. }, [shared, alone]) in loads.iter().zip(rows) {
        assert_eq!(alone.displaced.interval(), (0.0, 0.0), "{} under {title}", subject.name);
        if thread.is_some() {
            let (least, most) = (shared.displaced.interval().0, idle.displaced.interval().1);
            assert!(least > most, "{} under {title}: {}", subject.name, shared.displaced);
        }
    }
}
