//! Starts the machine's QEMU, and connects the channels to the machine.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use super::places;
use crate::Error;
use crate::guest::Guest;

/// A QEMU that is about to start: its command, and the machine's channels in a folder of its own.
pub struct Launch {
    pub command: Command,
    pub folder: tempfile::TempDir,
    data: UnixListener,
}

impl Launch {
    /// Prepares QEMU with these arguments and the arguments of the channels.
    ///
    /// # Errors
    /// A temporary folder or the socket for file transfers cannot be made.
    pub fn new(qemu: &Path, words: &[String]) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(Error::system("making a folder for the nested machine"))?;
        let socket = folder.path().join("data");
        let data = UnixListener::bind(&socket).map_err(Error::system("making the channel for files"))?;
        let mut command = Command::new(qemu);
        let inner = folder.path().join(places::SOCKET);
        command.args(["-chardev", &format!("socket,id=data,path={}", socket.display())]);
        command.args(["-chardev", &format!("socket,id=guest,path={},server=on,wait=off", inner.display())]);
        command.args(words);
        Ok(Self { command, folder, data })
    }

    /// Boots the machine, and waits until it accepts commands.
    ///
    /// # Errors
    /// QEMU cannot be started or ends, or the machine accepts no commands within 120 s.
    pub fn boot(self) -> Result<(Guest, UnixStream), Error> {
        Self::accept(&self.data, Guest::launch(self.command, self.folder)?)
    }

    /// Starts QEMU, which then waits for a saved machine to restore.
    ///
    /// # Errors
    /// QEMU cannot be started, ends, or does not connect to the control channel within 120 s.
    pub fn wait(self) -> Result<(Guest, UnixStream), Error> {
        Self::accept(&self.data, Guest::launch_silent(self.command, self.folder)?)
    }

    /// Accepts the channel for files, which QEMU connects to before the machine can run.
    fn accept(data: &UnixListener, guest: Guest) -> Result<(Guest, UnixStream), Error> {
        let (data, _) = data.accept().map_err(Error::system("making the channel for files"))?;
        Ok((guest, data))
    }
}
