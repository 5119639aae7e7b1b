//! Exit codes: 0 success, 1 error, 2 usage (clap's own too), 3 threshold exceeded, 130 interrupted.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use control::ClientError;
use lab::Stopped;
use linux::interrupt::{self, Interrupted};

/// How a command that did not fail has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The command did everything that was asked for.
    Whole,
    /// The command completed, and a limit of the user was exceeded.
    ThresholdExceeded,
}

/// An error in what the user wrote, found after parsing.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Returns `done`, or an error if a signal came before the command had finished.
///
/// # Errors
/// A signal came.
pub fn unless_interrupted(done: Done) -> anyhow::Result<Done> {
    interrupt::check().context("what was found until then is shown above")?;
    Ok(done)
}

/// Why an experiment ended early; an interrupt has its own exit code.
pub fn early(stopped: Stopped) -> anyhow::Error {
    match stopped {
        Stopped::Interrupted(interrupted) => interrupted.into(),
        Stopped::Failed(failure) => failure.into(),
    }
}

/// An error of the client of a running switch; an interrupt has its own exit code.
pub fn failed(error: ClientError) -> anyhow::Error {
    if let ClientError::Interrupted = error { Interrupted.into() } else { error.into() }
}

/// Prints an error and turns the result into the exit code.
pub fn code(result: anyhow::Result<Done>) -> ExitCode {
    match result {
        Ok(Done::Whole) => ExitCode::SUCCESS,
        Ok(Done::ThresholdExceeded) => ExitCode::from(3),
        Err(error) => {
            // Errors may quote the contents of files.
            say_last(report::units::page(&format!("tautline: {error:#}\n"), false));
            // A shell's code for a program that SIGINT ended.
            let codes = [(error.is::<Usage>(), 2), (error.is::<Interrupted>(), 130)];
            ExitCode::from(codes.into_iter().find_map(|(is, code)| is.then_some(code)).unwrap_or(1))
        }
    }
}

/// Writes to the error output if it has a reader: the exit code must not wait for a reader.
fn say_last(text: String) {
    let (done, written) = std::sync::mpsc::channel();
    let write = move || {
        let _ = std::io::stderr().write_all(text.as_bytes());
        let _ = done.send(());
    };
    if std::thread::Builder::new().spawn(write).is_ok() {
        let _ = written.recv_timeout(Duration::from_secs(1));
    }
}
