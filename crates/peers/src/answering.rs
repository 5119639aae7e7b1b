//! A program of this project that answers in lines of JSON.
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use linux::{Child, OutputReader};
use serde_json::Value;

use crate::Error;

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Killed when dropped.
pub struct Answering {
    child: Child,
    stdin: ChildStdin,
    output: OutputReader,
    read: usize,
}

impl Answering {
    /// Starts it; it ends with the calling thread at the latest.
    pub fn start(program: &Path, arguments: &[String]) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Child::spawn(&mut command).map_err(Error::system(format!("starting {command:?}")))?;
        let stdin = child.take_stdin().expect("piped");
        let output = OutputReader::start(child.take_stdout().expect("piped"));
        Ok(Answering { child, stdin, output, read: 0 })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives it a line, and waits for the next of its own.
    pub fn ask(&mut self, line: &str) -> Result<Value, Error> {
        writeln!(self.stdin, "{line}").map_err(Error::system(format!("asking for '{line}'")))?;
        self.answer()
    }

    /// The next line that it prints.
    pub fn answer(&mut self) -> Result<Value, Error> {
        let line = self.output.next_line(&mut self.read, LIMIT);
        let line = line.map_err(|why| Error::refused("waiting for an answer", why.to_string()))?;
        serde_json::from_str(&line)
            .map_err(|why| Error::refused(format!("the answer '{line}'"), why.to_string()))
    }
}
