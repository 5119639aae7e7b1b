//! The agent as a process of its own, spoken to over its protocol. Not a libtest: the agent forks, which it
//! may only do with one thread, and the process that it executes is this very file.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use measure::{Failure, MetricId, Outcome};
use workload::protocol::{AgentFacts, ExternalJob, Reply, Request};
use workload::{BudgetKind, Profile, agent, catalogue};

const SERVE: &str = "--serve";

type Test = (&'static str, fn());

const TESTS: &[Test] = &[
    (
        "every_metric_gives_a_figure_and_leaves_nothing_behind",
        every_metric_gives_a_figure_and_leaves_nothing_behind,
    ),
    (
        "bad_requests_get_a_failure_each_and_the_agent_goes_on",
        bad_requests_get_a_failure_each_and_the_agent_goes_on,
    ),
    ("the_end_of_input_and_quit_end_the_agent", the_end_of_input_and_quit_end_the_agent),
    ("a_killed_agent_leaves_no_children", a_killed_agent_leaves_no_children),
    ("external_programs_give_their_figure", external_programs_give_their_figure),
    ("external_programs_fail_with_a_reason", external_programs_fail_with_a_reason),
    ("too_little_memory_is_a_failure_with_the_reason", too_little_memory_is_a_failure_with_the_reason),
    ("loopback_is_brought_up_or_missed_by_name", loopback_is_brought_up_or_missed_by_name),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(agent::NOOP) => return,
        Some(SERVE) => {
            agent::serve(std::io::stdin().lock(), std::io::stdout()).unwrap();
            return;
        }
        _ => {}
    }
    let mut options = Arguments::from_args();
    options.test_threads = Some(1); // on the main thread, for the agent forks
    let trial = |&(name, test): &(&str, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&options, TESTS.iter().map(trial).collect()).exit();
}

/// An agent in a process of its own.
struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    facts: AgentFacts,
}

impl Agent {
    fn start() -> Self {
        Agent::start_by(Command::new(own_path()).arg(SERVE))
    }

    fn start_by(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        let mut agent = Agent { process, input, output, facts: AgentFacts::default() };
        agent.facts = agent.reply().greeting().unwrap();
        agent
    }

    fn send(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        Reply::parse(&line).unwrap()
    }

    fn ask(&mut self, request: &Request) -> Result<Outcome, Failure> {
        self.send(&request.to_line());
        match self.reply() {
            Reply::Done(outcome) => Ok(outcome),
            Reply::Failed(failure) => Err(failure),
            Reply::Ready { .. } => panic!("a second greeting"),
            other => panic!("another answer: {other:?}"),
        }
    }

    fn run(&mut self, metric: &str, budget_ms: u64) -> Result<Outcome, Failure> {
        let cpus = self.facts.cpus_usable.clone();
        self.ask(&Request::Run { metric: MetricId::new(metric), budget_ms, cpus })
    }

    fn external(&mut self, command: &[&str], pattern: &str, timeout_ms: u64) -> Result<Outcome, Failure> {
        let command = command.iter().map(|word| word.to_string()).collect();
        let cpus = self.facts.cpus_usable.clone();
        self.ask(&Request::External(ExternalJob { command, pattern: pattern.into(), timeout_ms, cpus }))
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).unwrap().count()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn own_path() -> std::path::PathBuf {
    std::env::current_exe().unwrap()
}

/// Children of a process that still run.
fn children_of(parent: u32) -> BTreeSet<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&pid| state_and_parent(pid).is_some_and(|(state, of)| of == parent && state != 'Z'))
        .collect()
}

/// From proc_pid_stat(5): the fields after the name, which may hold anything but ends with the last `)`.
fn state_and_parent(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn every_metric_gives_a_figure_and_leaves_nothing_behind() {
    let mut agent = Agent::start();
    let no_huge_pages =
        agent.facts.huge_page_bytes == 0 || agent.facts.transparent_huge_pages.contains("[never]");
    let cpus = agent.facts.cpus_usable.len();
    let files = agent.open_files();
    let mut failures = Vec::new();
    for entry in catalogue(Profile::Full) {
        let budget_ms = if entry.budget == BudgetKind::Wakeup { 20 } else { 4 };
        let id = entry.spec.id.as_str();
        match agent.run(id, budget_ms) {
            Ok(outcome) => {
                assert!(outcome.value.is_finite() && outcome.value > 0.0, "{id}: {}", outcome.value);
                assert!(!outcome.samples.is_empty() && outcome.elapsed_ns > 0, "{id}: {outcome:?}");
                assert!(outcome.samples.iter().all(|sample| sample.is_finite() && *sample > 0.0), "{id}");
                assert_eq!(outcome.histogram.is_some(), entry.budget == BudgetKind::Wakeup, "{id}");
            }
            Err(failure) if entry.cpus_needed > cpus => {
                assert!(failure.answer.contains("one CPU"), "{failure}")
            }
            Err(failure) if id.contains(".huge.") && no_huge_pages => {
                println!("    no huge pages on this machine: {id}: {failure}");
            }
            Err(failure) => failures.push(format!("{id}: {failure}")),
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(children_of(agent.process.id()), BTreeSet::new());
    assert_eq!(agent.open_files(), files);
}

fn bad_requests_get_a_failure_each_and_the_agent_goes_on() {
    let mut agent = Agent::start();
    let long = format!("{}\n", "x".repeat(100_000));
    for line in ["\n", "dance\n", "{}\n", "{\"request\":\"run\"}\n", "\u{fffd}\0\n", &long] {
        agent.send(line);
        let reply = agent.reply();
        assert!(
            matches!(&reply, Reply::Failed(failure) if failure.tried == "reading a request"),
            "{reply:?}"
        );
    }
    let mut refused = |metric: &str, budget_ms, cpus: &[usize], why: &str| {
        let request = Request::Run { metric: MetricId::new(metric), budget_ms, cpus: cpus.to_vec() };
        let failure = agent.ask(&request).unwrap_err().to_string();
        assert!(failure.contains(why), "{failure}");
    };
    refused("cpu.unheard_of", 5, &[0], "no such metric");
    refused("cpu.crc.one", 0, &[0], "no such length");
    refused("cpu.crc.one", u64::MAX, &[0], "no such length");
    refused("cpu.crc.one", 5, &[], "at least one CPU");
    refused("cpu.crc.all", 5, &[0, 0], "each once");
    refused("cpu.crc.one", 5, &[1_000], "choose among the CPUs");
    refused("cpu.crc.one", 5, &[usize::MAX], "choose among the CPUs");
    refused("os.pipe.latency.other_cpu", 5, &[0], "one CPU");
    assert!(agent.run("cpu.crc.one", 5).is_ok());
}

fn the_end_of_input_and_quit_end_the_agent() {
    let mut agent = Agent::start();
    agent.input = None;
    assert!(agent.process.wait().unwrap().success());
    let mut agent = Agent::start();
    agent.send(&Request::Quit.to_line());
    assert!(agent.process.wait().unwrap().success());
}

fn a_killed_agent_leaves_no_children() {
    let external = Request::External(ExternalJob {
        command: vec!["sleep".into(), "1000".into()],
        pattern: "(x)".into(),
        timeout_ms: 1_000_000,
        cpus: vec![0],
    });
    let run =
        |metric: &str| Request::Run { metric: MetricId::new(metric), budget_ms: 1_000_000, cpus: vec![0] };
    for (request, children) in [
        (run("os.context_switch.16.64KiB"), 15),
        (run("wakeup.memory.same"), 1),
        (run("os.unix.bandwidth"), 1),
        (external, 1),
    ] {
        let mut agent = Agent::start();
        agent.send(&request.to_line());
        let pid = agent.process.id();
        let mut seen = BTreeSet::new();
        eventually("helper processes", || {
            seen = children_of(pid);
            seen.len() == children
        });
        // Each helper first asks the kernel to end it with its parent. A moment later all helpers have done so.
        std::thread::sleep(Duration::from_millis(50));
        agent.process.kill().unwrap();
        agent.process.wait().unwrap();
        eventually("the helpers' end", || {
            seen.iter().all(|&child| state_and_parent(child).is_none_or(|(state, _)| state == 'Z'))
        });
    }
}

fn external_programs_give_their_figure() {
    let mut agent = Agent::start();
    let script = "echo score: 11.5 points; echo score: 12.5 points >&2; echo done";
    let outcome = agent.external(&["/bin/sh", "-c", script], "score: ([0-9.]+)", 5_000).unwrap();
    assert_eq!((outcome.value, outcome.samples.as_slice()), (12.5, [12.5].as_slice()));
    // Much output, of which the last figure counts.
    let many = agent.external(&["/bin/sh", "-c", "seq 400000"], r"(?m)^(\d+)$", 20_000).unwrap();
    assert_eq!(many.value, 400_000.0);
    let files = agent.open_files();
    agent.external(&["/bin/sh", "-c", "echo 1"], "(1)", 5_000).unwrap();
    assert_eq!(agent.open_files(), files);
}

fn external_programs_fail_with_a_reason() {
    let mut agent = Agent::start();
    let mut fails = |command: &[&str], pattern: &str, timeout_ms, expected: &[&str]| {
        let failure = agent.external(command, pattern, timeout_ms).unwrap_err().to_string();
        assert!(expected.iter().all(|part| failure.contains(part)), "{failure}");
    };
    let sh = |script| ["/bin/sh", "-c", script];
    fails(&["/no/such/program"], "(x)", 1_000, &["running /no/such/program", "No such file", "full path"]);
    fails(&[], "(x)", 1_000, &["the command is empty"]);
    fails(&sh("echo one; echo two >&2; exit 3"), "(x)", 5_000, &["exit code 3", "one | two"]);
    fails(&sh("kill -9 $$"), "(x)", 5_000, &["killed by signal 9", "printed nothing"]);
    fails(
        &sh("echo no figure here"),
        "score (\\d+)",
        5_000,
        &["no match", "no figure here", "adapt the pattern"],
    );
    fails(&sh("echo score x"), "score (.)", 5_000, &["no positive number"]);
    fails(&sh("echo 1"), "\\d", 5_000, &["it has 0 groups"]);
    fails(&sh("echo 1"), "(", 5_000, &["reading the pattern"]);
    let start = Instant::now();
    fails(&sh("echo waiting; sleep 1000; echo never"), "(x)", 100, &["not done after 100 ms", "waiting"]);
    assert!(start.elapsed() < Duration::from_secs(60));
    eventually("the end of what was started", || children_of(agent.process.id()).is_empty());
    assert!(agent.run("cpu.crc.one", 5).is_ok());
}

fn too_little_memory_is_a_failure_with_the_reason() {
    let limited = format!("ulimit -v 200000; exec {} {SERVE}", own_path().display());
    let mut agent = Agent::start_by(Command::new("/bin/sh").args(["-c", &limited]));
    let failure = agent.run("memory.latency.random.small.256MiB", 5).unwrap_err().to_string();
    assert!(failure.contains("Cannot allocate memory") && failure.contains("256 MiB"), "{failure}");
    assert!(agent.run("memory.bandwidth.copy", 5).is_ok());
}

fn loopback_is_brought_up_or_missed_by_name() {
    let probe = Command::new("unshare").args(["--user", "--map-root-user", "--net", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        peers::absent(
            "namespaces",
            "an ordinary user can make no user and network namespace, so lo is never down",
        );
        return;
    }
    let mut agent = Agent::start_by(
        Command::new("unshare").args(["--user", "--map-root-user", "--net"]).arg(own_path()).arg(SERVE),
    );
    assert!(agent.run("os.select.10", 5).is_ok());
    // Without the right to change it.
    let powerless = [
        "--user",
        "--map-root-user",
        "--net",
        "setpriv",
        "--bounding-set=-net_admin",
        "--inh-caps=-net_admin",
    ];
    let mut agent = Agent::start_by(Command::new("unshare").args(powerless).arg(own_path()).arg(SERVE));
    let failure = agent.run("os.epoll.10", 5).unwrap_err().to_string();
    assert!(failure.contains("loopback") && failure.contains("Operation not permitted"), "{failure}");
    assert!(agent.run("os.pipe.latency", 5).is_ok());
}
