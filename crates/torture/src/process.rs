//! The back-end under test, which a command may start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linux::{Child, OutputFile};
use measure::Failure;

use crate::run::Target;

/// The time between two checks for the socket.
const LOOK: Duration = Duration::from_millis(20);

/// A back-end at a socket.
pub struct BackEnd {
    path: PathBuf,
    command: Option<String>,
    patience: Duration,
    process: Option<Child>,
}

impl BackEnd {
    /// The back-end at a socket. If there is a `command`, it starts the back-end, whose socket must exist within
    /// `patience` or 20 s, whichever is longer.
    ///
    /// # Errors
    /// The command cannot be started, ends early, or makes no socket in time.
    pub fn new(path: PathBuf, command: Option<String>, patience: Duration) -> Result<Self, Failure> {
        let mut target = BackEnd { path, command, patience, process: None };
        target.start()?;
        Ok(target)
    }

    fn start(&mut self) -> Result<bool, Failure> {
        let Some(line) = &self.command else { return Ok(false) };
        // The former process ends first, with the processes that it started.
        self.process = None;
        let failed = |answer: String| {
            Failure::new(format!("starting the back-end: {line}"), answer, "try the command by itself")
        };
        let output = OutputFile::new().map_err(|error| failed(error.to_string()))?;
        let stdio = || output.stdio().map_err(|error| failed(error.to_string()));
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(stdio()?).stderr(stdio()?);
        let _ = std::fs::remove_file(&self.path);
        let process =
            self.process.insert(Child::spawn_group(&mut command).map_err(|error| failed(error.to_string()))?);
        let until = Instant::now() + self.patience.max(Duration::from_secs(20));
        while !self.path.exists() {
            let ended = process.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > until {
                let how = ended.map_or("its socket is not there".to_owned(), |status| status.to_string());
                let said = output.tail(4096).unwrap_or_default();
                return Err(failed(format!("{how}; its last output: {}", said.trim())));
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }
}

impl Target for BackEnd {
    fn path(&self) -> &Path {
        &self.path
    }

    fn restart(&mut self) -> Result<bool, Failure> {
        self.start()
    }
}
