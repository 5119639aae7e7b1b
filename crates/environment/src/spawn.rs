//! Starts the child processes of a run.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use linux::Child;
use linux::child::RUN;

/// Starts a child outside the terminal's foreground group. Ctrl-C then reaches only this process, which ends its
/// children in order.
///
/// # Errors
/// The causes of [`Child::spawn`].
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    Child::spawn(command.process_group(0).env(RUN, std::process::id().to_string()))
}
