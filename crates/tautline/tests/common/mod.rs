//! Running the binary, and looking for what it may have left.

pub mod libvirt;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use linux::{Child, OutputReader};
use rustix::process::{Pid, Signal, kill_process};

/// The binary under test.
pub fn tautline() -> PathBuf {
    env!("CARGO_BIN_EXE_tautline").into()
}

/// A folder that `scripts/setup.sh test` has made.
pub fn cache(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    cache.unwrap_or_else(home).join("tautline").join(name)
}

/// A command being put together.
pub struct Run {
    command: Command,
}

impl Run {
    pub fn new(arguments: &[&str]) -> Self {
        let mut command = Command::new(tautline());
        command.args(arguments);
        Run { command }
    }

    pub fn of(command: &mut Command) -> Self {
        Run { command: std::mem::replace(command, Command::new("true")) }
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub fn spawn(mut self) -> Started {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Child::spawn(&mut self.command).unwrap();
        let stdout = OutputReader::start(child.take_stdout().unwrap());
        let stderr = OutputReader::start(child.take_stderr().unwrap());
        Started { child, stdout, stderr }
    }

    pub fn finish(self) -> Ended {
        self.spawn().finish()
    }
}

/// Nothing takes longer.
const END_LIMIT: Duration = Duration::from_secs(600);

/// A command at work.
pub struct Started {
    child: Child,
    stdout: OutputReader,
    stderr: OutputReader,
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// What it has written on its error output until now.
    pub fn errors(&self) -> String {
        self.stderr.text()
    }

    pub fn finish(&mut self) -> Ended {
        self.finish_within(END_LIMIT)
    }

    pub fn finish_within(&mut self, limit: Duration) -> Ended {
        let pid = self.child.id();
        let code = self.child.wait_within(limit).unwrap().expect("it ends").code();
        let all = |reader: &OutputReader| reader.until_closed(END_LIMIT).unwrap();
        Ended { pid, code, stdout: all(&self.stdout), stderr: all(&self.stderr) }
    }
}

/// A command that ended.
#[derive(Debug)]
pub struct Ended {
    pub pid: u32,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {:?}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

pub fn wait_until(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20));
    }
    true
}

/// The children of a process whose command line holds this argument.
pub fn children(parent: u32, argument: &str) -> Vec<u32> {
    processes()
        .filter(|&pid| stat(pid).is_some_and(|(its_parent, _)| its_parent == parent))
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|&byte| byte == 0).any(|word| word == argument.as_bytes())
        })
        .collect()
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Parent and session of a process.
fn stat(pid: u32) -> Option<(u32, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = text.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace();
    Some((fields.nth(1)?.parse().ok()?, fields.nth(1)?.to_owned()))
}

/// What carries the name of a run of this process: folders, cgroups, mounts, and processes that it is in.
pub fn leftovers(pid: u32) -> Vec<String> {
    let names = [format!("tautline-{pid}-"), format!("tautline-lxc-{pid}-")];
    let (ending, inside) = (format!("-{pid}"), format!("-{pid}-"));
    let named = |text: &str| {
        names.iter().any(|name| text.contains(name.as_str()))
            || text.starts_with("tautline-") && (text.ends_with(&ending) || text.contains(&inside))
    };
    let mut found = Vec::new();
    let mut folders =
        vec![(std::env::temp_dir(), 0), ("/sys/fs/cgroup".into(), 2), (PathBuf::from("/run"), 2)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if named(&entry.file_name().to_string_lossy()) {
                found.push(entry.path().display().to_string());
            } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((entry.path(), depth - 1));
            }
        }
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| named(line)).map(str::to_owned));
    for process in processes() {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // A child that outlived its parent has another one, but its environment still tells.
        let mark = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let mark = String::from_utf8_lossy(&mark).into_owned();
        if named(&line) || mark.split('\0').any(|entry| entry == format!("TAUTLINE_RUN={pid}")) {
            found.push(format!("process {process}: {line}"));
        }
    }
    found
}

/// The folder for temporary files that the process made for `what`, once there is one.
pub fn temporary_folder(what: &str, pid: u32) -> Option<PathBuf> {
    let start = format!("tautline-{what}-{pid}-");
    let named = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&start);
    fs::read_dir(std::env::temp_dir()).unwrap().flatten().find(named).map(|entry| entry.path())
}

/// Nothing that the run of this process made is there any more, and no child of it.
pub fn nothing_left(pid: u32) {
    assert!(wait_until(|| leftovers(pid).is_empty()), "left behind: {:?}", leftovers(pid));
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} lives on");
}
