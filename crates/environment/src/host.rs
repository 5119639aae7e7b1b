//! The host itself as an environment: the agent is a child process.

use std::process::{Command, Stdio};

use linux::OutputFile;
use measure::{EnvironmentKind, Failure};

use crate::channel::Channel;
use crate::{Environment, Running, Start, spawn};

/// The host, without a container or guest.
#[derive(Clone, Debug, Default)]
pub struct Host;

impl Environment for Host {
    fn kind(&self) -> EnvironmentKind {
        EnvironmentKind::Host
    }

    fn accelerator(&self) -> &str {
        "native"
    }

    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn start(&self, start: &Start<'_>) -> Result<Running, Failure> {
        let mut command = Command::new(&start.agent.binary);
        command.args(&start.agent.arguments);
        spawn_with_pipes(command, "the agent on the host", "check that the file exists and may be executed")
    }
}

/// Spawns a command whose standard input and output are the channel to the agent.
pub(crate) fn spawn_with_pipes(mut command: Command, what: &str, remedy: &str) -> Result<Running, Failure> {
    let tried = format!("starting {what}: {command:?}");
    let fail = |error: std::io::Error| Failure::new(&tried, error, remedy);
    let output = OutputFile::new().map_err(fail)?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(output.stdio().map_err(fail)?);
    let mut child = spawn::spawn(&mut command).map_err(fail)?;
    let from_agent = child.take_stdout().expect("piped above");
    let to_agent = child.take_stdin().expect("piped above");
    let channel = Channel::new(from_agent.into(), to_agent.into()).map_err(fail)?;
    Ok(Running::new(what.to_owned(), channel, child, output))
}
