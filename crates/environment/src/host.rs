//! The bare host: the agent as a child process.

use std::fs::File;
use std::process::{Command, Stdio};

use measure::{EnvironmentKind, Failure};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::channel::Channel;
use crate::{Environment, Running, Start, spawn};

/// The bare host.
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
    // In memory: a full disk must not silence the one who complains of it.
    let words =
        File::from(memfd_create(c"tautline-words", MFdFlags::MFD_CLOEXEC).map_err(|e| fail(e.into()))?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(words.try_clone().map_err(fail)?);
    spawn::tie_to_parent(&mut command);
    let mut child = command.spawn().map_err(fail)?;
    let from_agent = child.stdout.take().expect("piped above");
    let to_agent = child.stdin.take().expect("piped above");
    let channel = Channel::new(from_agent.into(), to_agent.into()).map_err(fail)?;
    Ok(Running::new(what.to_owned(), channel, child, words))
}
