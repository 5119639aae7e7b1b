//! Programs that the user brought: run as they are, the figure found in what they print.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use measure::{Failure, NoiseProbe, Outcome, Preemption};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use regex_lite::Regex;

use crate::clock::now_ns;
use crate::pin::pin_to_all;
use crate::protocol::ExternalJob;
use crate::sys;
use crate::trial::Trial;

/// Only the end of what a program prints is searched.
const SEARCHED_BYTES: u64 = 1 << 20;

/// Lines of a program's output that an error shows.
const SHOWN_LINES: usize = 5;

/// How often a running program is looked at. It only delays the end, not the figure.
const LOOK: Duration = Duration::from_millis(5);

/// Runs a program to its end and finds the figure.
pub(crate) fn run(job: &ExternalJob) -> Result<Outcome, Failure> {
    let trial = Trial::new(job.timeout_ms, job.cpus.clone())?;
    let pattern = pattern(&job.pattern)?;
    pin_to_all(&trial.cpus)?;
    let failed = |error: std::io::Error| {
        Failure::new(
            format!("running {}", job.command.join(" ")),
            error,
            "give a command that exists in this environment, by its full path",
        )
    };
    let output =
        memfd_create(c"tautline-output", MFdFlags::MFD_CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut output = File::from(output);
    let probe = NoiseProbe::start(Preemption::NotCounted);
    let start_ns = now_ns();
    let child = Group(spawn(job, &output).map_err(failed)?);
    let status = child.wait(start_ns + trial.budget.as_nanos() as u64).map_err(failed)?;
    let elapsed_ns = now_ns() - start_ns;
    let noise = probe.finish();
    let text = tail(&mut output).map_err(failed)?;
    let value = judge(job, &pattern, status, &text)?;
    Ok(Outcome {
        value,
        samples: vec![value],
        histogram: None,
        missed: 0,
        elapsed_ns,
        remarks: Vec::new(),
        noise,
    })
}

fn pattern(text: &str) -> Result<Regex, Failure> {
    let remedy = "give a regular expression with one group around the figure, such as `score: ([0-9.]+)`";
    let tried = || format!("reading the pattern {text:?}");
    let pattern = Regex::new(text).map_err(|error| Failure::new(tried(), error, remedy))?;
    match pattern.captures_len() {
        2 => Ok(pattern),
        groups => Err(Failure::new(tried(), format!("it has {} groups", groups - 1), remedy)),
    }
}

fn spawn(job: &ExternalJob, output: &File) -> std::io::Result<Child> {
    let [program, arguments @ ..] = job.command.as_slice() else {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the command is empty"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    // A group of its own, so that what it starts can be ended with it.
    command.process_group(0);
    sys::kill_with_parent(&mut command);
    command.spawn()
}

/// A program with all it started; killed on drop.
struct Group(Child);

impl Group {
    /// Waits for the program's end; none where it had not ended by then.
    fn wait(mut self, until_ns: u64) -> std::io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if now_ns() >= until_ns {
                return Ok(None);
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails where nothing of the group is left.
        let _ = killpg(Pid::from_raw(self.0.id() as i32), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn tail(output: &mut File) -> std::io::Result<String> {
    let length = output.seek(SeekFrom::End(0))?;
    output.seek(SeekFrom::Start(length.saturating_sub(SEARCHED_BYTES)))?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn judge(job: &ExternalJob, pattern: &Regex, status: Option<ExitStatus>, text: &str) -> Result<f64, Failure> {
    let command = job.command.join(" ");
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let said = match lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" | ") {
        said if said.is_empty() => "it printed nothing".into(),
        said => format!("it last printed: {said}"),
    };
    let tried = format!("running {command}");
    let Some(status) = status else {
        let answer = format!("not done after {} ms; {said}", job.timeout_ms);
        return Err(Failure::new(tried, answer, "give it more time or less to do"));
    };
    if !status.success() {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => "it ended in an unknown way".into(),
        };
        return Err(Failure::new(tried, format!("{how}; {said}"), "make the command work by itself first"));
    }
    let tried = format!("finding {:?} in what {command} printed", job.pattern);
    let Some(found) = pattern.captures_iter(text).last().and_then(|groups| groups.get(1)) else {
        return Err(Failure::new(tried, format!("no match; {said}"), "adapt the pattern"));
    };
    match found.as_str().trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(Failure::new(
            tried,
            format!("{:?} is no positive number", found.as_str()),
            "put the group around the figure alone",
        )),
    }
}
