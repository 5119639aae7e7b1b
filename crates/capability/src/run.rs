//! Runs every probe in a process of its own, which is ended at the time limit together with all that it has started.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::output_file::last_lines;
use linux::{Child, OutputFile};
use measure::Failure;

use super::finding::{Capability, Finding};
use super::probes::{NAMES, find};
use super::{leftover, parent};

/// The first argument of a process that runs one probe; the second is the probe's name.
pub const ARGUMENT: &str = "probe";

/// The bytes at the end of a failed probe's output in which its last lines are searched.
const OUTPUT_BYTES: u64 = 16 << 10;

/// How long the removal of a killed probe's leftovers may take.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// Runs all probes, one after the other because some of them measure, each for at most `limit_per_probe`. `binary
/// PROBE-ARGUMENT NAME` must call [`super::serve_probe`].
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

/// Runs one probe in a process of its own. If there is no answer within the limit, or the process crashes, the
/// capability is missing, and its detail says so.
pub fn run_one(binary: &Path, name: &str, limit: Duration) -> Capability {
    ask(binary, name, limit).unwrap_or_else(|failure| {
        // A probe that did not come to its end may have left a cgroup or a tracing instance.
        if let Ok(mut sweeper) = start(binary, leftover::SWEEP) {
            let _ = sweeper.child.wait_within(SWEEP_LIMIT);
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
    let ended = process.child.wait_within(limit);
    let Some(status) = ended.map_err(|error| fail(error.to_string(), "see what the system said"))? else {
        return Err(fail(
            format!("no answer within {} s", limit.as_secs_f64()),
            "run this command by itself, and `dmesg` after it, to see where it hangs",
        ));
    };
    let remedy = "run this command by itself to see more; a crash is a defect to report";
    let answer = process.answer.tail(u64::MAX).map_err(|error| fail(error.to_string(), remedy))?;
    serde_json::from_str(&answer).map_err(|_| {
        let output = process.output.tail(OUTPUT_BYTES).unwrap_or_default();
        fail(format!("no answer; ended with {status}{}", last_output(&output)), remedy)
    })
}

/// A started probe.
struct Process {
    child: Child,
    answer: OutputFile,
    output: OutputFile,
}

fn start(binary: &Path, name: &str) -> io::Result<Process> {
    let (answer, output) = (OutputFile::new()?, OutputFile::new()?);
    let mut command = Command::new(binary);
    command.args([ARGUMENT, name]).env(parent::VARIABLE, std::process::id().to_string());
    command.stdin(Stdio::null()).stdout(answer.stdio()?).stderr(output.stdio()?);
    Ok(Process { child: Child::spawn_group(&mut command)?, answer, output })
}

fn last_output(output: &str) -> String {
    match last_lines(output, 3).join(" | ") {
        lines if lines.is_empty() => lines,
        lines => format!("; its last output: {lines}"),
    }
}
