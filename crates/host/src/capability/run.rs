//! Every probe in a process of its own, which ends at the time limit with all it has started.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use measure::Failure;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getppid};

use super::{Capability, Finding, NAMES, find, leftover};
use crate::sys;

/// The first argument of a process that runs one probe; the second is the probe's name.
pub const ARGUMENT: &str = "probe";

/// Tells the child who started it, so that it can see that this process has ended before it looked.
const PARENT: &str = "TAUTLINE_PROBE_PARENT";

/// How long the removal of a killed probe's leftovers may take.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// How long a killed process may take to die.
const DEATH_LIMIT: Duration = Duration::from_secs(1);

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
    let mut process = start(binary, name).map_err(|error| {
        fail(
            error.to_string(),
            "check that the file exists and may be executed; Linux 5.3 or later is needed",
        )
    })?;
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
    /// Becomes readable at its end.
    end: OwnedFd,
    answer: File,
    words: File,
}

fn start(binary: &Path, name: &str) -> io::Result<Process> {
    let (answer, words) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = Command::new(binary)
        .args([ARGUMENT, name])
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(answer.try_clone()?)
        .stderr(words.try_clone()?)
        .process_group(0) // to be killed with all it starts; and Ctrl-C at the terminal is not for it
        .spawn()?;
    match sys::pidfd_open(pid_of(&child)) {
        Ok(end) => Ok(Process { child, end, answer, words }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(io::Error::other(format!("pidfd_open: {error}")))
        }
    }
}

impl Process {
    /// Waits for the process's end and kills what is left of its group; `None` where it had to be killed.
    fn end_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let pid = pid_of(&self.child);
        // The child is not reaped yet, so that neither its number nor its group's can be another's.
        let ended = becomes_readable_by(&self.end, Instant::now() + limit);
        // Fails only where nobody of the group is left.
        let _ = killpg(pid, Signal::SIGKILL);
        // A process stuck in a driver does not even die: it is not waited for without end.
        becomes_readable_by(&self.end, Instant::now() + DEATH_LIMIT);
        let status = self.child.try_wait().ok().flatten();
        status.filter(|_| ended)
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Sleeps until the process has ended or the time has come. Looking again and again would disturb the probes that
/// measure disturbance.
fn becomes_readable_by(end: &OwnedFd, deadline: Instant) -> bool {
    let mut ended = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // In milliseconds, of which the last must not become none.
        let left = Duration::from_millis(left.as_millis() as u64 + u64::from(!left.is_zero()));
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut ended, timeout) {
            Ok(0) if left.is_zero() => return false,
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
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
