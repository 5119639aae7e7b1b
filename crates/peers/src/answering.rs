//! Runs a program of this project that prints its answers as lines of JSON.
use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use linux::{Child, OutputReader};
use serde_json::Value;

use crate::Error;

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// A running program that answers in lines of JSON. The program is killed when this value is dropped.
pub struct Answering {
    child: Child,
    stdin: ChildStdin,
    output: OutputReader,
    read: usize,
}

impl Answering {
    /// Starts the program. The program is killed when the calling thread ends.
    ///
    /// # Errors
    /// The program cannot be started ([`Child::spawn`]).
    pub fn start(program: &Path, arguments: &[String]) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Child::spawn(&mut command).map_err(Error::system(format!("starting {command:?}")))?;
        let stdin = child.take_stdin().expect("piped");
        let output = OutputReader::start(child.take_stdout().expect("piped"));
        Ok(Answering { child, stdin, output, read: 0 })
    }

    /// The program's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line, and waits up to 20 s for the next line of the program.
    ///
    /// # Errors
    /// The program has closed its input, or the causes of [`Answering::answer`].
    pub fn ask(&mut self, line: &str) -> Result<Value, Error> {
        writeln!(self.stdin, "{line}").map_err(Error::system(format!("asking for '{line}'")))?;
        self.answer()
    }

    /// Waits up to 20 s for the next line that the program prints.
    ///
    /// # Errors
    /// The program closes its output, prints no line in time, or prints one that is not JSON.
    pub fn answer(&mut self) -> Result<Value, Error> {
        let line = self.output.next_line(&mut self.read, LIMIT);
        let line = line.map_err(|why| Error::refused("waiting for an answer", why.to_string()))?;
        serde_json::from_str(&line)
            .map_err(|why| Error::refused(format!("the answer '{line}'"), why.to_string()))
    }
}
