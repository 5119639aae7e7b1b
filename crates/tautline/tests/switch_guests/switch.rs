//! A `tautline switch` process that ends with the test, and what it counted.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use peers::Netns;
use serde::Deserialize;

/// Long enough for a busy machine; only a failing switch waits for it.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Killed when dropped, and with the thread that started it.
pub struct Switch {
    child: Child,
    output: Option<[JoinHandle<String>; 2]>,
}

impl Switch {
    /// With these arguments.
    pub fn start(arguments: &[String]) -> Self {
        Self::spawn(Command::new("setpriv"), arguments)
    }

    /// The same in a network namespace.
    pub fn start_in(namespace: &Netns, arguments: &[String]) -> Self {
        Self::spawn(namespace.command("setpriv"), arguments)
    }

    fn spawn(mut setpriv: Command, arguments: &[String]) -> Self {
        setpriv.args([
            "--pdeathsig",
            "KILL",
            "--",
            env!("CARGO_BIN_EXE_tautline"),
            "switch",
            "--format",
            "json",
        ]);
        setpriv.args(arguments);
        let mut child = setpriv
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{setpriv:?}: {error}"));
        let output = [gather(child.stdout.take().unwrap()), gather(child.stderr.take().unwrap())];
        Self { child, output: Some(output) }
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

    /// Without a chance to tidy up.
    pub fn crash(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As a user ends it; what it counted.
    pub fn end(mut self) -> Counters {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
        let status = self.wait();
        let [stdout, stderr] = self.output.take().unwrap().map(|thread| thread.join().unwrap());
        assert!(status.success(), "{status}\n{stdout}{stderr}");
        let counters = stdout.lines().last().map(serde_json::from_str);
        counters.unwrap_or_else(|| panic!("no counters\n{stderr}")).unwrap()
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + END_LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the switch does not end on SIGTERM");
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(output) = self.output.take() {
            for thread in output {
                // What a failed test shows.
                eprint!("{}", thread.join().unwrap_or_default());
            }
        }
    }
}

fn gather(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
        let fair = |reason: &str| reason == "receiver full" || but.contains(&reason);
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
