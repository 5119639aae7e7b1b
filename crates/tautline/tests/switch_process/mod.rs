//! The program's switch as a process of its own, and what it says.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod bystanders;
pub mod guest;
pub mod load;
pub mod wires;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::{Child, OutputReader};
use rustix::process::{Pid, Signal, kill_process};
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
        // Where a time is measured until there is something, this is a part of it.
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Limits of open files.
pub enum OpenFiles {
    /// The limits of this process.
    Inherited,
    /// The process may raise it.
    Soft(u32),
    /// The process may not raise it.
    Hard(u32),
}

/// A running `tautline switch --format json`. Killed when dropped.
pub struct SwitchProcess {
    child: Child,
    stdout: OutputReader,
    /// `None` if another reader has it.
    stderr: Option<OutputReader>,
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

    /// Starts the switch in this network namespace, with these arguments.
    pub fn start_in(network: &peers::Netns, arguments: &[String]) -> Self {
        Self::spawn(network.command(env!("CARGO_BIN_EXE_tautline")), arguments, Stdio::piped())
    }

    /// The same as another user, who may use this copy of the program, and the folder of its sockets.
    pub fn start_as(user: u32, program: &Path, arguments: &[String]) -> Self {
        let mut command = Command::new(program);
        command.uid(user);
        Self::spawn(command, arguments, Stdio::piped())
    }

    /// The same with this limit of open files, or with this as its standard error, which is not read.
    pub fn start_with(arguments: &[String], open_files: OpenFiles, stderr: impl Into<Stdio>) -> Self {
        let mut command = Command::new("sh");
        let limit = match open_files {
            OpenFiles::Inherited => String::new(),
            OpenFiles::Soft(count) => format!("ulimit -S -n {count} && "),
            OpenFiles::Hard(count) => format!("ulimit -n {count} && "),
        };
        command.arg("-c").arg(format!("{limit}exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_tautline"));
        Self::spawn(command, arguments, stderr)
    }

    fn spawn(mut command: Command, arguments: &[String], stderr: impl Into<Stdio>) -> Self {
        command.args(["switch", "--format", "json"]).args(arguments).stderr(stderr);
        let mut child = Child::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
        let stdout = OutputReader::start(child.take_stdout().unwrap());
        let stderr = child.take_stderr().map(OutputReader::start);
        let switch = SwitchProcess { child, stdout, stderr };
        switch.wait_until_started();
        switch
    }

    /// Starts it, and waits for nothing.
    pub fn begin(arguments: &[String]) -> Self {
        Self::begin_by(Command::new(env!("CARGO_BIN_EXE_tautline")), arguments)
    }

    /// Starts it in this network namespace, and waits for nothing.
    pub fn begin_in(network: &peers::Netns, arguments: &[String]) -> Self {
        Self::begin_by(network.command(env!("CARGO_BIN_EXE_tautline")), arguments)
    }

    fn begin_by(mut command: Command, arguments: &[String]) -> Self {
        command.args(["switch", "--format", "json"]).args(arguments).stderr(Stdio::piped());
        let mut child = Child::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped())).unwrap();
        let stdout = OutputReader::start(child.take_stdout().unwrap());
        let stderr = child.take_stderr().map(OutputReader::start);
        SwitchProcess { child, stdout, stderr }
    }

    fn wait_until_started(&self) {
        self.wait_until_signals_are_caught();
        // The switch answers once all ports are started.
        self.snapshot();
    }

    /// A signal before its handler is there would end the switch, and one that is caught but not yet heard is lost: the
    /// last that is caught says that the others are heard.
    pub fn wait_until_signals_are_caught(&self) {
        wait_for("the handler of SIGHUP", || are_signals_caught(self.id()).then_some(()));
    }

    /// Sends it SIGUSR1 every millisecond, until the value is dropped.
    pub fn signalled(&self) -> Signalled {
        let (process, ends) = (self.id(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let pid = Pid::from_raw(process.cast_signed()).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                // Before it is caught, the signal would end the switch.
                if are_signals_caught(process) {
                    let _ = kill_process(pid, Signal::USR1);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Signalled { ends, thread: Some(thread) }
    }

    /// Waits for it to end by itself, in order; all it has logged.
    #[track_caller]
    pub fn ended(mut self) -> Vec<String> {
        let status = self.child.wait_within(SOON).unwrap().expect("the switch's end");
        assert!(status.success(), "{status}; it said {:#?}", self.logged());
        self.stderr.as_ref().map_or_else(Vec::new, |stderr| lines(&stderr.until_closed(SOON).unwrap()))
    }

    /// Ends it at once, with nothing put in order.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
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
        self.child.signal(Signal::STOP).unwrap();
        wait_for("the switch's standstill", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T').then_some(())
        });
        let result = what();
        self.child.signal(Signal::CONT).unwrap();
        result
    }

    /// Its counters, asked for with SIGUSR1.
    #[track_caller]
    pub fn snapshot(&self) -> Value {
        let line = self.ask().unwrap_or_else(|| panic!("no counters; it said {:#?}", self.logged()));
        let snapshot = serde_json::from_str(&line).unwrap();
        peers::schema::fits(&snapshot);
        snapshot
    }

    fn ask(&self) -> Option<String> {
        let mut position = self.stdout.len();
        self.child.signal(Signal::USR1).ok()?;
        self.stdout.next_line(&mut position, SOON).ok()
    }

    /// The lines that the switch has logged.
    pub fn logged(&self) -> Vec<String> {
        self.stderr.as_ref().map_or_else(Vec::new, |stderr| lines(&stderr.text()))
    }

    /// How many descriptors it has open.
    pub fn open_fds(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Asks it to end, and waits for that; how long it took.
    #[track_caller]
    pub fn terminate(&mut self) -> Duration {
        let since = Instant::now();
        self.child.signal(Signal::TERM).unwrap();
        let status = self.child.wait_within(SOON).unwrap().expect("the switch's end");
        assert!(status.success(), "{status}; it said {:#?}", self.logged());
        since.elapsed()
    }

    /// Lets it end in order: its last counters, and all it has logged.
    pub fn end(mut self) -> (Value, Vec<String>) {
        self.child.signal(Signal::TERM).unwrap();
        let status = self.child.wait_within(SOON).unwrap().expect("the switch's end");
        assert!(status.success(), "{status}; it said {:#?}", self.logged());
        let counters = lines(&self.stdout.until_closed(SOON).unwrap()).pop().expect("counters at the end");
        let logged =
            self.stderr.as_ref().map_or_else(String::new, |stderr| stderr.until_closed(SOON).unwrap());
        (serde_json::from_str(&counters).unwrap(), lines(&logged))
    }
}

/// Signals that a switch is sent. To be dropped before the switch's end is waited for.
pub struct Signalled {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Signalled {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Whether a switch catches the last of its signals, SIGHUP, and with it all others.
fn are_signals_caught(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|caught| u64::from_str_radix(caught.trim(), 16).ok());
    caught.is_some_and(|caught| caught & 1 << (Signal::HUP.as_raw() - 1) != 0)
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let said = self.logged();
            let last = &said[said.len().saturating_sub(20)..];
            println!("the switch said at last {last:#?} and counted {:?}", self.ask());
        }
        let _ = self.child.kill();
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// A folder for sockets.
pub struct Sockets(tempfile::TempDir);

impl Sockets {
    pub fn new() -> Self {
        Sockets(tempfile::tempdir().unwrap())
    }

    /// In memory, where a switch can note what it delivers.
    pub fn in_memory() -> Self {
        Sockets(tempfile::tempdir_in("/dev/shm").unwrap())
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

/// The sum of all workers' counters of this name.
pub fn workers(snapshot: &Value, name: &str) -> u64 {
    snapshot["workers"].as_array().unwrap().iter().map(|worker| worker[name].as_u64().unwrap()).sum()
}

/// As `--cpus` takes them: as many of the CPUs that this process may use.
pub fn cpus(count: usize) -> String {
    let mut usable = linux::cpus::usable().unwrap();
    usable.truncate(count);
    linux::cpus::list(&usable)
}

/// Whether a process listens on this path.
pub fn listens(path: &Path) -> bool {
    peers::socket::wait_for_listener(path, Duration::ZERO).is_ok()
}
