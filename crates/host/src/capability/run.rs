//! Every probe in a process of its own, which ends at the time limit with all it has started.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use measure::Failure;
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getppid};

use super::{Capability, Finding, NAMES, find, leftover};

/// The first argument of a process that runs one probe; the second is the probe's name.
pub const ARGUMENT: &str = "probe";

/// Tells the child who started it, so that it can see that this process has ended before it looked.
const PARENT: &str = "TAUTLINE_PROBE_PARENT";

/// How long the removal of a killed probe's leftovers may take.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// Runs all probes, one after the other because some of them measure, each at most `limit_per_probe`.
/// `binary PROBE-ARGUMENT NAME` must call [`super::serve_probe`].
pub fn run_all(
    binary: &Path,
    limit_per_probe: Duration,
    on_each: &mut dyn FnMut(&Capability),
) -> Vec<Capability> {
    NAMES
        .iter()
        .map(|name| {
            let capability = run_one(binary, name, limit_per_probe);
            on_each(&capability);
            capability
        })
        .collect()
}

/// Runs one probe in a process of its own. Without an answer within the limit, or after a crash, the
/// capability is missing, and says so.
pub fn run_one(binary: &Path, name: &str, limit: Duration) -> Capability {
    ask(binary, name, limit).unwrap_or_else(|failure| {
        // A probe that did not come to its end may have left a cgroup or a tracing instance.
        if let Ok(mut sweeper) = start(binary, leftover::SWEEP) {
            let _ = sweeper.end_within(SWEEP_LIMIT);
        }
        let finding = Finding::from(failure);
        match find(name) {
            Some(probe) => probe.capability(finding),
            None => finding.of(name, name, ""),
        }
    })
}

fn ask(binary: &Path, name: &str, limit: Duration) -> Result<Capability, Failure> {
    let tried = format!("{} {ARGUMENT} {name}", binary.display());
    let fail = |answer: String, remedy: &str| Failure::new(&tried, answer, remedy);
    let mut process = start(binary, name)
        .map_err(|error| fail(error.to_string(), "check that the file exists and may be executed"))?;
    let Some(status) = process.end_within(limit) else {
        return Err(fail(
            format!("no answer within {} s", limit.as_secs_f64()),
            "run this command by itself, and `dmesg` after it, to see where it hangs",
        ));
    };
    let remedy = "run this command by itself to see more; a crash is a defect to report";
    let answer = contents(&mut process.answer).map_err(|error| fail(error.to_string(), remedy))?;
    serde_json::from_str(&answer).map_err(|_| {
        let words = contents(&mut process.words).unwrap_or_default();
        fail(format!("no answer; {}{}", ending(status), last_lines(&words)), remedy)
    })
}

/// A started probe. Its output goes to files: a grandchild that holds a pipe open cannot delay the end.
struct Process {
    child: Child,
    answer: File,
    words: File,
}

fn start(binary: &Path, name: &str) -> io::Result<Process> {
    let (answer, words) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let child = Command::new(binary)
        .args([ARGUMENT, name])
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(answer.try_clone()?)
        .stderr(words.try_clone()?)
        .process_group(0) // to be killed with all it starts; and Ctrl-C at the terminal is not for it
        .spawn()?;
    Ok(Process { child, answer, words })
}

impl Process {
    /// Waits for the process's end and kills what is left of its group; `None` where it had to be killed.
    fn end_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let deadline = Instant::now() + limit;
        // Not reaped yet (WNOWAIT), so that the number of the group cannot be another's when it is killed.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let ended = loop {
            match waitid(Id::Pid(pid), flags) {
                Ok(WaitStatus::StillAlive) | Err(nix::Error::EINTR) if Instant::now() < deadline => {
                    sleep(Duration::from_millis(5));
                }
                Ok(WaitStatus::StillAlive) | Err(_) => break false,
                Ok(_) => break true,
            }
        };
        // Fails only where nobody of the group is left.
        let _ = killpg(pid, Signal::SIGKILL);
        let status = self.child.wait().ok();
        status.filter(|_| ended)
    }
}

/// Lets this process be killed when the one that started it ends. Called again after every change of
/// credentials (a new user namespace is one), which may clear the request: prctl(2), PR_SET_PDEATHSIG.
pub(super) fn tie_to_parent() {
    let parent = std::env::var(PARENT).ok().and_then(|text| text.parse().ok()).map(Pid::from_raw);
    // Without the variable somebody runs the probe by hand.
    if let Some(parent) = parent {
        let tied = prctl::set_pdeathsig(Signal::SIGKILL);
        // The parent may have ended before the request.
        if tied.is_err() || getppid() != parent {
            std::process::exit(1);
        }
    }
}

fn contents(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn ending(status: ExitStatus) -> String {
    match status.signal().map(Signal::try_from) {
        Some(Ok(signal)) => format!("killed by {signal}"),
        _ => format!("ended with {status}"),
    }
}

fn last_lines(words: &str) -> String {
    let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => String::new(),
        lines => format!("; its last words: {}", lines[lines.len().saturating_sub(3)..].join(" | ")),
    }
}
