//! Processes that are ended when the value that represents them is dropped.

use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use linux::output_reader::NotPrinted;
use linux::{Child, OutputReader};

use crate::Error;

/// The pause between two polls.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Output {
    /// The exit status; 128 plus the signal's number if a signal ended the command.
    pub status: i32,
    /// The standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl Output {
    /// Whether the exit status is 0.
    pub fn success(&self) -> bool {
        self.status == 0
    }

    /// The standard output of a command that must not fail.
    ///
    /// # Panics
    /// Panics with the command's output if the exit status is not 0.
    #[track_caller]
    pub fn expect_success(self) -> String {
        assert!(self.success(), "exit status {}\n{}\n{}", self.status, self.stdout, self.stderr);
        self.stdout
    }
}

/// Repeats `look` every 5 ms until `enough` returns true for its result.
pub(crate) fn look_until<T: std::fmt::Debug>(
    limit: Duration,
    doing: impl Fn() -> String,
    mut look: impl FnMut() -> Result<T, Error>,
    enough: impl Fn(&T) -> bool,
) -> Result<T, Error> {
    let deadline = Instant::now() + limit;
    loop {
        let seen = look()?;
        if enough(&seen) {
            return Ok(seen);
        }
        if Instant::now() > deadline {
            return Err(Error::TimedOut { doing: doing(), limit, said: format!("{seen:?}") });
        }
        std::thread::sleep(PAUSE);
    }
}

/// How long after its end what a process printed may take to arrive.
const DRAIN: Duration = Duration::from_secs(10);

/// Runs a command and waits for its end. Kills the command after the limit.
///
/// # Errors
/// The command cannot be started, cannot be waited for, or does not end within the limit.
pub fn run(command: &mut Command, limit: Duration) -> Result<Output, Error> {
    let doing = format!("running {command:?}");
    let mut process = Process::start_with(&doing, command.stdin(Stdio::null()))?;
    let status = process.child.wait_within(limit).map_err(Error::system(&doing))?;
    let Some(status) = status else {
        return Err(Error::TimedOut { doing, limit, said: tail(&process.said()) });
    };
    // A grandchild may hold the pipes open.
    let text = |reader: &OutputReader| reader.until_closed(DRAIN).unwrap_or_else(|_| reader.text());
    Ok(Output { status: exit_code(status), stdout: text(&process.stdout), stderr: text(&process.stderr) })
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A process and all its output. The process is killed when this value is dropped, or when the thread that started it
/// ends.
///
/// Waits look at standard output only; the other stream is kept separately, so that it cannot come between two
/// characters of a prompt.
pub(crate) struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: OutputReader,
    stderr: OutputReader,
}

impl Process {
    /// Starts the process with pipes for its input and output.
    pub(crate) fn start(name: impl Into<String>, command: &mut Command) -> Result<Self, Error> {
        Self::start_with(name, command.stdin(Stdio::piped()))
    }

    /// Starts it with the input that the command has, and pipes from it.
    fn start_with(name: impl Into<String>, command: &mut Command) -> Result<Self, Error> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Child::spawn(command).map_err(Error::system(format!("starting {command:?}")))?;
        let stdout = OutputReader::start(child.take_stdout().expect("piped"));
        let stderr = OutputReader::start(child.take_stderr().expect("piped"));
        Ok(Self { name: name.into(), stdin: child.take_stdin(), child, stdout, stderr })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// All output so far: standard output, then standard error.
    pub(crate) fn said(&self) -> String {
        self.stdout.text() + &self.stderr.text()
    }

    /// The length of the standard output so far, in bytes: the place from which to search for later output.
    pub(crate) fn mark(&self) -> usize {
        self.stdout.len()
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), Error> {
        use std::io::Write;
        let stdin = self.stdin.as_mut().expect("open until the end");
        stdin.write_all(text.as_bytes()).map_err(Error::system(format!("telling {} {text:?}", self.name)))
    }

    /// Waits until `found` returns a value for the standard output after `mark`.
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
        mark: usize,
        limit: Duration,
        mut found: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        self.wait(what, &self.stdout, limit, |said| found(&said[mark..]))
    }

    /// Waits until `found` returns a value for the standard error.
    pub(crate) fn wait_for_log<T>(
        &self,
        what: &str,
        limit: Duration,
        found: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        self.wait(what, &self.stderr, limit, found)
    }

    fn wait<T>(
        &self,
        what: &str,
        reader: &OutputReader,
        limit: Duration,
        found: impl FnMut(&str) -> Option<T>,
    ) -> Result<T, Error> {
        reader.wait_for(limit, found).map_err(|why| {
            let doing = format!("waiting for {what} of {}", self.name);
            match why {
                NotPrinted::Closed => Error::refused(doing, format!("it has ended: {}", self.ending())),
                NotPrinted::TimedOut(limit) => Error::TimedOut { doing, limit, said: tail(&self.said()) },
            }
        })
    }

    /// All output of the process; waits a short time for its end. For an error's text.
    pub(crate) fn ending(&self) -> String {
        for reader in [&self.stdout, &self.stderr] {
            let _ = reader.until_closed(Duration::from_secs(5));
        }
        tail(&self.said())
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The exit status, if the process has ended: 128 plus the signal's number if a signal ended it.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten().map(exit_code)
    }

    /// Waits until the process ends by itself, and returns its exit status. A process that still runs after the limit
    /// is killed, which is an error.
    pub(crate) fn end(&mut self, limit: Duration) -> Result<i32, Error> {
        self.stdin = None;
        let doing = format!("ending {}", self.name);
        match self.child.wait_within(limit).map_err(Error::system(&doing))? {
            Some(status) => Ok(exit_code(status)),
            None => Err(Error::TimedOut { doing, limit, said: tail(&self.said()) }),
        }
    }
}

/// The last lines of a text, for an error's text.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
