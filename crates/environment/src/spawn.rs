//! Starting what belongs to a run.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use linux::Child;
use linux::child::RUN;

/// Starts a child out of the terminal's foreground group, so that Ctrl-C reaches this process alone, which then
/// ends its children in order.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    Child::spawn(command.process_group(0).env(RUN, std::process::id().to_string()))
}
