//! A `tautline switch` process that ends with the test, and what it counted.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::{Child, OutputReader};
use peers::Netns;
use rustix::process::Signal;
use serde::Deserialize;

/// Long enough for a busy machine; only a failing switch waits for it.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Killed when dropped, and with the thread that started it.
pub struct Switch {
    child: Child,
    stdout: OutputReader,
    stderr: OutputReader,
    /// Whether the output is no longer needed: it is shown if a test fails.
    ended: bool,
}

impl Switch {
    /// With these arguments.
    pub fn start(arguments: &[String]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_tautline")), arguments)
    }

    /// The same in a network namespace.
    pub fn start_in(namespace: &Netns, arguments: &[String]) -> Self {
        Self::spawn(namespace.command(env!("CARGO_BIN_EXE_tautline")), arguments)
    }

    fn spawn(mut command: Command, arguments: &[String]) -> Self {
        command.args(["switch", "--format", "json"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Child::spawn(&mut command).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = OutputReader::start(child.take_stdout().unwrap());
        let stderr = OutputReader::start(child.take_stderr().unwrap());
        Self { child, stdout, stderr, ended: false }
    }

    /// The CPU time of all its threads so far.
    pub fn cpu_time(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let nanoseconds = tasks.map(|task| {
            let text = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
            text.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// What it has logged.
    pub fn said(&self) -> String {
        self.stderr.text()
    }

    /// Without a chance to tidy up.
    pub fn crash(mut self) {
        self.child.kill().unwrap();
    }

    /// As a user ends it; what it counted.
    pub fn end(mut self) -> Counters {
        self.child.signal(Signal::TERM).unwrap();
        let status = self.child.wait_within(END_LIMIT).unwrap().expect("the switch ends on SIGTERM");
        let [stdout, stderr] =
            [&self.stdout, &self.stderr].map(|reader| reader.until_closed(END_LIMIT).unwrap());
        self.ended = true;
        assert!(status.success(), "{status}\n{stdout}{stderr}");
        let counters = stdout.lines().last().map(serde_json::from_str);
        counters.unwrap_or_else(|| panic!("no counters\n{stderr}")).unwrap()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        if !self.ended {
            // What a failed test shows.
            eprint!("{}{}", self.stdout.text(), self.stderr.text());
        }
    }
}

/// The switch's last line.
#[derive(Debug, Deserialize)]
pub struct Counters {
    pub ports: Vec<Port>,
}

#[derive(Debug, Deserialize)]
pub struct Port {
    pub name: String,
    pub description: String,
    pub queues: Vec<Queue>,
}

#[derive(Debug, Deserialize)]
pub struct Queue {
    pub from_guest: bool,
    pub frames: u64,
    pub bytes: u64,
    pub drops: BTreeMap<String, u64>,
}

impl Counters {
    pub fn port(&self, name: &str) -> &Port {
        self.ports.iter().find(|port| port.name == name).unwrap_or_else(|| panic!("no port {name}"))
    }

    /// Every queue passed frames, and none was dropped for a reason that blames a peer or the switch: all
    /// but a receiver that runs full, and these, would be a bug.
    pub fn check(&self, but: &[&str]) {
        let full = ["receiver full", "too few buffers for a cut frame"];
        let fair = |reason: &str| full.contains(&reason) || but.contains(&reason);
        for port in &self.ports {
            for queue in &port.queues {
                assert!(queue.drops.keys().all(|reason| fair(reason)), "{port:#?}");
                assert!(queue.frames > 0, "a queue without frames: {port:#?}");
            }
        }
    }
}

impl Port {
    /// Bytes of the mean frame in one direction.
    pub fn mean_bytes(&self, from_guest: bool) -> f64 {
        let queues = self.queues.iter().filter(|queue| queue.from_guest == from_guest);
        let (frames, bytes) =
            queues.fold((0, 0), |(frames, bytes), queue| (frames + queue.frames, bytes + queue.bytes));
        bytes as f64 / frames as f64
    }
}
