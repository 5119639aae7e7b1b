//! `tautline tti` beside cyclictest, in alternation and under the same loads: a thread of SCHED_FIFO 80 on one CPU,
//! 1 ms, natively and in a container. cyclictest's timer is on the CPU itself, so the receiver waits by its own timer
//! (`--wait timer`). A tick that another CPU sends is printed beside them: that is another way to be woken.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use environment::{Agent, Environment, Janitor, Running, Spec, Start};
use measure::statistics::median;
use serde_json::Value;
use workload::ticks::Load;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(60);
/// For [`load`]: the load's name and CPU.
const LOAD: &str = "TAUTLINE_TEST_LOAD";

/// Where both run.
enum Place {
    Host,
    Container(Box<Running>),
}

impl Place {
    fn container(cpu: usize) -> Self {
        let janitor = Arc::new(Janitor::start(Path::new(BINARY)).unwrap());
        let agent = Agent { binary: BINARY.into(), arguments: vec!["agent".into()], files: Vec::new() };
        let start = Start { agent: &agent, cpus: &[cpu], limit: LIMIT, janitor: &janitor };
        let spec: Spec = "container".parse().unwrap();
        let mut running = spec.prove(&start).unwrap().start(&start).unwrap();
        running.channel().receive(LIMIT).unwrap();
        Place::Container(Box::new(running))
    }

    fn name(&self) -> &'static str {
        match self {
            Place::Host => "host",
            Place::Container(_) => "container",
        }
    }

    /// A command there: in the container's namespaces but for its files, and in its cgroups.
    fn command(&self, words: &[String]) -> Command {
        let Place::Container(running) = self else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            return command;
        };
        let agent = deepest(running.process_id());
        let cgroups = fs::read_to_string(format!("/proc/{agent}/cgroup")).unwrap();
        let joins = cgroups.lines().filter_map(|line| {
            let [_, controllers, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { return None };
            let path = path.trim_start_matches('/');
            let procs = Path::new("/sys/fs/cgroup").join(controllers).join(path).join("cgroup.procs");
            procs.is_file().then(|| format!("echo $$ >'{}'; ", procs.display()))
        });
        let joins: String = joins.collect();
        assert!(!joins.is_empty(), "{cgroups}");
        let mut command = Command::new("sh");
        let line = format!("{joins}exec nsenter -t {agent} --net --ipc --uts --pid {}", words.join(" "));
        command.args(["-c", &line]);
        command
    }
}

/// The agent below the container's runtime.
fn deepest(process: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    children.split_whitespace().next().map_or(process, |child| deepest(child.parse().unwrap()))
}

fn name(load: Option<Load>) -> &'static str {
    match load {
        None => "none",
        Some(Load::Cpu) => "cpu",
        Some(Load::Memory) => "memory",
        Some(Load::Io) => "io",
        Some(Load::Network) => "network",
    }
}

/// The load in a process of its own, ended when dropped.
struct Beside(Option<Child>);

impl Beside {
    fn start(load: Option<Load>, cpu: usize) -> Self {
        Beside(load.map(|load| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "tti_cyclictest::load", "--ignored", "--nocapture"])
                .env(LOAD, format!("{} {cpu}", name(Some(load))));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
            assert!(lines.any(|line| line.unwrap().contains("at work")), "the load did not start");
            child
        }))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
#[ignore = "the others start it: a load beside cyclictest"]
fn load() {
    let Ok(wanted) = std::env::var(LOAD) else { return };
    let (load, cpu) = wanted.split_once(' ').unwrap();
    let load =
        [Load::Cpu, Load::Memory, Load::Io, Load::Network].into_iter().find(|one| name(Some(*one)) == load);
    load.unwrap().start(cpu.parse().unwrap()).unwrap();
    println!("at work");
    std::thread::sleep(LIMIT);
}

/// From due to user space, µs.
#[derive(Clone, Copy)]
struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

/// The quantiles of cyclictest's histogram.
fn cyclictest(place: &Place, cpu: usize, time: Duration) -> Quantiles {
    let loops = time.as_millis().to_string();
    let words =
        ["cyclictest", "-q", "-m", "-p80", "-i1000", "-t1", "-a", &cpu.to_string(), "-h2000", "-l", &loops]
            .map(str::to_owned);
    let output = place.command(&words).output().expect("scripts/setup.sh test installs cyclictest");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let counts: Vec<(f64, u64)> = text
        .lines()
        .filter_map(|line| line.split_once(|c: char| c.is_whitespace()))
        .filter_map(|(us, count)| Some((us.parse().ok()?, count.trim().parse().ok()?)))
        .collect();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    assert!(all > 0, "no histogram in {text}");
    let quantile = |per_cent: u64| {
        let mut seen = 0;
        let found = counts.iter().find(|(_, count)| {
            seen += count;
            seen * 100 >= all * per_cent
        });
        // Whole microseconds, rounded down.
        found.expect("all are at most all").0 + 0.5
    };
    let used = counts.iter().filter(|(_, count)| *count > 0).map(|(us, _)| *us);
    Quantiles { p50: quantile(50), p99: quantile(99), max: used.fold(0.0, f64::max) }
}

/// What runs in turns.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    /// `tti`, whose receiver waits by its own timer.
    Timer,
    Cyclictest,
    /// `tti`, whose ticks another CPU sends: another way to be woken, to be printed beside the others.
    Interrupt,
}

impl Turn {
    fn name(self) -> &'static str {
        match self {
            Turn::Timer => "tti --wait timer",
            Turn::Cyclictest => "cyclictest",
            Turn::Interrupt => "tti, another CPU's",
        }
    }
}

/// The quantiles of `tautline tti`, whose receiver waits in the way that `wait` names.
fn tti(place: &Place, load: Option<Load>, cpus: &str, time: Duration, wait: &str) -> Quantiles {
    let time = format!("{}ms", time.as_millis());
    let words = ["--quiet", "tti", "--environments", place.name(), "--load", name(load), "--cpus", cpus];
    let words = words.into_iter().chain(["--wait", wait]);
    let output =
        Command::new(BINARY).args(words).args(["--time", &time, "--format", "json"]).output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let outcome = &results["rows"][0]["outcome"]["Ok"];
    let histogram: measure::Histogram = serde_json::from_value(outcome["received"]["from_due"].clone())
        .unwrap_or_else(|error| panic!("{error}: {results}"));
    let us = |ns: u64| ns as f64 / 1e3;
    let p99 = us(histogram.quantile_ns(0.99));
    Quantiles { p50: us(histogram.median_ns()), p99, max: us(histogram.max_ns()) }
}

/// The results of some turns, µs.
struct Both {
    /// The median of the medians of each turn: `tti`'s, and cyclictest's.
    median: (f64, f64),
    /// The least of these medians, which other work on the machine does not raise.
    least: (f64, f64),
}

/// Some turns of `tti`, cyclictest and those beside them.
fn alternate(place: &Place, load: Option<Load>, beside: &[Turn], turns: usize, time: Duration) -> Both {
    let cpus = linux::cpus::usable().unwrap();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let ours = |wait| tti(place, load, &format!("{first},{last}"), time, wait);
    let measure = |who| match who {
        Turn::Timer => ours("timer"),
        Turn::Interrupt => ours("interrupt"),
        Turn::Cyclictest => {
            let _load = Beside::start(load, last);
            cyclictest(place, last, time)
        }
    };
    let who: Vec<Turn> = [Turn::Timer, Turn::Cyclictest].iter().chain(beside).copied().collect();
    let mut found = vec![Vec::new(); who.len()];
    for turn in 0..turns {
        let order: Vec<usize> =
            if turn.is_multiple_of(2) { (0..who.len()).collect() } else { (0..who.len()).rev().collect() };
        for index in order {
            found[index].push(measure(who[index]));
        }
    }
    println!("{}, load {}, µs: median of {turns} turns", place.name(), name(load));
    let medians = who.iter().zip(found).map(|(who, found)| {
        let of = |which: fn(&Quantiles) -> f64| found.iter().map(which).collect::<Vec<_>>();
        let p50 = of(|one| one.p50);
        let list: Vec<String> = p50.iter().map(|value| format!("{value:.1}")).collect();
        let [median_p50, p99, max] =
            [p50.clone(), of(|one| one.p99), of(|one| one.max)].map(|all| median(&all).unwrap());
        println!(
            "  {:18} p50 {median_p50:>6.1} p99 {p99:>7.1} max {max:>8.1}  (p50: {})",
            who.name(),
            list.join(" ")
        );
        (median_p50, p50.into_iter().fold(f64::INFINITY, f64::min))
    });
    let medians: Vec<(f64, f64)> = medians.collect();
    let (ours, theirs) = (medians[0], medians[1]);
    Both { median: (ours.0, theirs.0), least: (ours.1, theirs.1) }
}

fn last_cpu() -> usize {
    linux::cpus::usable().unwrap().last().copied().unwrap()
}

/// By the least of several turns, for other programs run on this machine. `make check-tti` asks for more.
#[test]
fn both_see_the_same_machine() {
    for load in [None, Some(Load::Cpu)] {
        let (ours, theirs) = alternate(&Place::Host, load, &[], 4, Duration::from_millis(300)).least;
        let near = (ours - theirs).abs() <= 15.0 || (0.5..2.0).contains(&(ours / theirs));
        assert!(near, "{ours} µs beside cyclictest's {theirs} µs");
    }
}

/// Within 15 % or 3 µs, on a quiet machine.
#[test]
#[ignore = "some minutes on a quiet machine: make check-tti"]
fn medians_agree_natively_and_in_a_container_under_every_load() {
    let mut beyond = Vec::new();
    for place in [Place::Host, Place::container(last_cpu())] {
        for load in [None, Some(Load::Cpu), Some(Load::Memory), Some(Load::Io), Some(Load::Network)] {
            let (ours, theirs) =
                alternate(&place, load, &[Turn::Interrupt], 9, Duration::from_secs(1)).median;
            if (ours - theirs).abs() > 3.0 && (ours / theirs - 1.0).abs() > 0.15 {
                beyond.push(format!("{}, load {}: {ours:.1} and {theirs:.1} µs", place.name(), name(load)));
            }
        }
    }
    assert!(beyond.is_empty(), "beyond 15 % and 3 µs:\n{}", beyond.join("\n"));
}
