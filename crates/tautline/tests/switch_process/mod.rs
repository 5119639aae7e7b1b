//! The program's switch as a process of its own, and what it says.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod bystanders;
pub mod guest;
pub mod wires;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Long enough for a busy machine; only a failing test waits for it.
pub const SOON: Duration = Duration::from_secs(60);

/// Looks until there is something, or gives up.
#[track_caller]
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "did not come: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lines that a thread gathers from a pipe.
#[derive(Default)]
struct Lines {
    lines: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Lines::default());
        let gathered = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                gathered.lock().0.push(line);
                gathered.more.notify_all();
            }
            gathered.lock().1 = true;
            gathered.more.notify_all();
        });
        lines
    }

    fn lock(&self) -> MutexGuard<'_, (Vec<String>, bool)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the line after the first `count`; `None` once the pipe is closed or it is too late.
    fn after(&self, count: usize) -> Option<String> {
        let gathered = self.lock();
        let missing = |(lines, ended): &mut (Vec<String>, bool)| lines.len() <= count && !*ended;
        let (gathered, _) = self.more.wait_timeout_while(gathered, SOON, missing).unwrap();
        gathered.0.get(count).cloned()
    }

    fn ended(&self) -> Vec<String> {
        let gathered = self.lock();
        self.more.wait_timeout_while(gathered, SOON, |(_, ended)| !*ended).unwrap().0.0.clone()
    }
}

/// A running `tautline switch --json`. Killed when dropped.
pub struct SwitchProcess {
    child: Child,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
}

impl SwitchProcess {
    /// Starts it with these arguments, and waits until its ports have been started.
    pub fn start(arguments: &[String]) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_tautline")), arguments, Stdio::piped())
    }

    /// The same in a network namespace of its own, where it may make interfaces.
    pub fn start_in_own_network(arguments: &[String]) -> Self {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--", env!("CARGO_BIN_EXE_tautline")]);
        Self::spawn(command, arguments, Stdio::piped())
    }

    /// The same with so many open files at most, or with this as its standard error, which is not read.
    pub fn start_with(arguments: &[String], open_files: Option<u32>, stderr: impl Into<Stdio>) -> Self {
        let mut command = Command::new("sh");
        let limit = open_files.map_or_else(String::new, |count| format!("ulimit -n {count} && "));
        command.arg("-c").arg(format!("{limit}exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_tautline"));
        Self::spawn(command, arguments, stderr)
    }

    fn spawn(mut command: Command, arguments: &[String], stderr: impl Into<Stdio>) -> Self {
        command.args(["switch", "--json"]).args(arguments).stderr(stderr);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = child.stderr.take().map(Lines::of).unwrap_or_default();
        let switch = SwitchProcess { child, stdout, stderr };
        // A signal before its handler is there would end the switch.
        wait_for("the handler of SIGUSR1", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", switch.id())).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
            (caught & 1 << (Signal::SIGUSR1 as i32 - 1) != 0).then_some(())
        });
        // It answers once all ports are started.
        switch.snapshot();
        switch
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it runs still.
    pub fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// How it ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Does something while all threads of the switch stand still.
    pub fn paused<T>(&self, what: impl FnOnce() -> T) -> T {
        let pid = Pid::from_raw(self.id() as i32);
        kill(pid, Signal::SIGSTOP).unwrap();
        wait_for("the switch's standstill", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T').then_some(())
        });
        let result = what();
        kill(pid, Signal::SIGCONT).unwrap();
        result
    }

    /// Its counters, asked for with SIGUSR1.
    #[track_caller]
    pub fn snapshot(&self) -> Value {
        let line = self.ask().unwrap_or_else(|| panic!("no counters; it said {:#?}", self.logged()));
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&self) -> Option<String> {
        let before = self.stdout.lock().0.len();
        kill(Pid::from_raw(self.id() as i32), Signal::SIGUSR1).ok()?;
        self.stdout.after(before)
    }

    /// What it has logged.
    pub fn logged(&self) -> Vec<String> {
        self.stderr.lock().0.clone()
    }

    /// How many descriptors it has open.
    pub fn open_fds(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Asks it to end, and waits for that; how long it took.
    #[track_caller]
    pub fn terminate(&mut self) -> Duration {
        let since = Instant::now();
        kill(Pid::from_raw(self.id() as i32), Signal::SIGTERM).unwrap();
        let status = wait_for("the switch's end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}; it said {:#?}", self.logged());
        since.elapsed()
    }

    /// Lets it end in order: its last counters, and all it has logged.
    pub fn end(mut self) -> (Value, Vec<String>) {
        kill(Pid::from_raw(self.id() as i32), Signal::SIGTERM).unwrap();
        let status = wait_for("the switch's end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}; it said {:#?}", self.logged());
        let last = self.stdout.ended().pop().expect("counters at the end");
        (serde_json::from_str(&last).unwrap(), self.stderr.ended())
    }
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.logged();
            let last = &said[said.len().saturating_sub(20)..];
            println!("the switch said at last {last:#?} and counted {:?}", self.ask());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder for sockets.
pub struct Sockets(tempfile::TempDir);

impl Sockets {
    pub fn new() -> Self {
        Sockets(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A port of the switch with this name and kind, its socket named after it.
    pub fn port(&self, name: &str, kind: &str, options: &str) -> [String; 2] {
        let path = self.path(name);
        ["--port".into(), format!("{name}={kind}:{}{options}", path.display())]
    }
}

/// Both ends of a wire.
pub fn connect(one: &str, other: &str) -> [String; 2] {
    ["--wire".into(), format!("{one}={other}")]
}

/// One queue's counters of a port.
fn queues<'a>(snapshot: &'a Value, port: &str) -> impl Iterator<Item = &'a Value> {
    let ports = snapshot["ports"].as_array().unwrap();
    let found = ports.iter().find(|each| each["name"] == port).unwrap_or_else(|| panic!("no port {port}"));
    found["queues"].as_array().unwrap().iter()
}

fn drops_of(queue: &Value) -> impl Iterator<Item = (&str, u64)> {
    let drops = queue["drops"].as_object().unwrap().iter();
    drops.map(|(reason, frames)| (reason.as_str(), frames.as_u64().unwrap()))
}

/// Frames that a port dropped for this reason.
pub fn drops(snapshot: &Value, port: &str, reason: &str) -> u64 {
    let all = queues(snapshot, port).flat_map(drops_of);
    all.filter(|(each, _)| *each == reason).map(|(_, frames)| frames).sum()
}

/// Frames that the switch dropped, all ports and reasons.
pub fn dropped(snapshot: &Value) -> u64 {
    let ports = snapshot["ports"].as_array().unwrap().iter();
    let names = ports.map(|port| port["name"].as_str().unwrap());
    names.flat_map(|name| queues(snapshot, name)).flat_map(drops_of).map(|(_, frames)| frames).sum()
}

/// Frames that a port passed on, from its guest or to it.
pub fn passed(snapshot: &Value, port: &str, from_guest: bool) -> u64 {
    let side = queues(snapshot, port).filter(|queue| queue["from_guest"] == from_guest);
    side.map(|queue| queue["frames"].as_u64().unwrap()).sum()
}

/// How a port describes itself.
pub fn description(snapshot: &Value, port: &str) -> String {
    let ports = snapshot["ports"].as_array().unwrap();
    let found = ports.iter().find(|each| each["name"] == port).unwrap();
    found["description"].as_str().unwrap().to_owned()
}

/// What all workers counted under this name.
pub fn workers(snapshot: &Value, name: &str) -> u64 {
    snapshot["workers"].as_array().unwrap().iter().map(|worker| worker[name].as_u64().unwrap()).sum()
}

/// As `--cpus` takes them: as many of the CPUs that this process may use.
pub fn cpus(count: usize) -> String {
    let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
    let allowed = (0..nix::sched::CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap());
    allowed.take(count).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

/// Whether this path is a socket that somebody listens on.
pub fn listens(path: &Path) -> bool {
    peers::socket::wait_for_listener(path, Duration::ZERO).is_ok()
}
