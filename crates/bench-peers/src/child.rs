//! A process of ours that answers in lines of JSON. Killed when dropped.
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

pub struct LineChild {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl LineChild {
    /// Starts `program`, which ends with the calling thread at the latest.
    pub fn start(name: &str, program: &std::path::Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().with_context(|| format!("starting {name}: {command:?}"))?;
        let stdin = child.stdin.take().context("a piped input")?;
        let stdout = child.stdout.take().context("a piped output")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(LineChild { name: name.to_owned(), child, stdin, lines })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.stdin, "{line}").with_context(|| format!("telling {} '{line}'", self.name))
    }

    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = Pid::from_raw(self.child.id() as i32);
        kill(id, signal).with_context(|| format!("sending {signal} to {}", self.name))
    }

    /// The next line, understood.
    pub fn answer(&mut self) -> anyhow::Result<Value> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => {
                serde_json::from_str(&line).with_context(|| format!("{} answered '{line}'", self.name))
            }
            Err(RecvTimeoutError::Timeout) => {
                bail!("{} did not answer within {} s", self.name, LIMIT.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("{} has ended: {:?}", self.name, self.child.try_wait())
            }
        }
    }
}

impl Drop for LineChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
