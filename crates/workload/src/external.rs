//! Programs that the user supplied: the agent runs each without changes and finds the figure in its output.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use linux::output_file::last_lines;
use linux::{Child, OutputFile};
use measure::{Failure, NoiseProbe, Outcome, Preemption};
use regex_lite::Regex;

use crate::clock::now_ns;
use crate::pin::pin_to_all;
use crate::protocol::ExternalJob;
use crate::trial::Trial;

/// Only the end of what a program prints is searched.
const SEARCHED_BYTES: u64 = 1 << 20;

/// Lines of a program's output that an error shows.
const SHOWN_LINES: usize = 5;

/// Runs a program to its end and finds the figure in its output.
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
    let output = OutputFile::new().map_err(failed)?;
    let probe = NoiseProbe::start(Preemption::NotCounted);
    let start_ns = now_ns();
    let mut child = spawn(job, &output).map_err(failed)?;
    let status = child.wait_within(trial.budget).map_err(failed)?;
    drop(child);
    let elapsed_ns = now_ns() - start_ns;
    let noise = probe.finish();
    let text = output.tail(SEARCHED_BYTES).map_err(failed)?;
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

fn spawn(job: &ExternalJob, output: &OutputFile) -> std::io::Result<Child> {
    let [program, arguments @ ..] = job.command.as_slice() else {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the command is empty"));
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(output.stdio()?).stderr(output.stdio()?);
    // A group of its own, so that what it starts ends with it.
    Child::spawn_group(&mut command)
}

fn judge(job: &ExternalJob, pattern: &Regex, status: Option<ExitStatus>, text: &str) -> Result<f64, Failure> {
    let command = job.command.join(" ");
    let said = match last_lines(text, SHOWN_LINES).join(" | ") {
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
