//! A separate process that removes what is left if this process is killed.
//!
//! Child processes end with their parent; files, containers and cgroups do not. The janitor is this same binary in a
//! session of its own; it reads from a pipe whose writing end only this process holds. This process announces each
//! thing before it makes it, and reports each thing that it has removed. When the pipe closes, the janitor removes
//! what was announced and not yet removed, and ends.

use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use measure::Failure;
use serde::{Deserialize, Serialize};

use crate::cpuset;

/// The argument that makes the binary a janitor.
pub const ARGUMENT: &str = "janitor";

/// A thing that outlives the process that made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftover {
    /// A folder with all its contents.
    Folder(PathBuf),
    /// A container that an OCI runtime knows.
    Container {
        /// The runtime's command.
        runtime: PathBuf,
        /// The runtime's state folder.
        state: PathBuf,
        /// The container's name.
        id: String,
    },
    /// An instance of the kernel's tracing: a folder of tracefs, which is removed as a whole.
    TracingInstance(PathBuf),
    /// A line in a file of tracefs that holds several lines, such as an event's triggers.
    TracingLine {
        /// The file.
        file: PathBuf,
        /// The line that removes the first line again.
        undo: String,
    },
    /// The changes that a journal records: devices that were assigned to a guest.
    Journal(PathBuf),
    /// A cgroup, named by the last part of its path, in any hierarchy.
    Cgroup(String),
    /// The controller `cpuset`, enabled for the cgroups below the root of cgroup v2.
    CpusetController,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Made(Leftover),
    Removed(Leftover),
}

/// The connection to the janitor's process.
#[derive(Debug)]
pub struct Janitor {
    child: Mutex<Child>,
}

impl Janitor {
    /// Starts the janitor; `binary` must run [`serve`] when called with [`ARGUMENT`].
    ///
    /// # Errors
    /// The binary cannot be started.
    pub fn start(binary: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(binary);
        command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0); // a Ctrl-C at the terminal is not for it
        let child = command.spawn().map_err(|error| {
            Failure::new(
                format!("starting the janitor: {command:?}"),
                error,
                "check that the file may be executed",
            )
        })?;
        Ok(Janitor { child: Mutex::new(child) })
    }

    /// Tells the janitor that a thing is about to be made.
    pub fn made(&self, leftover: &Leftover) {
        self.say(&Message::Made(leftover.clone()));
    }

    /// Removes a thing, and tells the janitor.
    pub fn remove(&self, leftover: &Leftover) {
        remove(leftover);
        self.say(&Message::Removed(leftover.clone()));
    }

    fn say(&self, message: &Message) {
        let mut child = self.child.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(pipe) = child.stdin.as_mut() {
            let line = serde_json::to_string(message).expect("plain data");
            // A janitor that was killed cannot hear; the normal way of cleaning up is unaffected.
            let _ = writeln!(pipe, "{line}");
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        drop(child.stdin.take());
        let _ = child.wait();
    }
}

/// The janitor's main function: reads messages until the pipe closes, then removes the things that are left.
pub fn serve(input: impl BufRead) {
    let mut left: Vec<Leftover> = Vec::new();
    for line in input.lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(Message::Made(leftover)) => left.push(leftover),
            Ok(Message::Removed(leftover)) => left.retain(|known| *known != leftover),
            Err(_) => {} // a last line cut short by a kill
        }
    }
    // The latest first: a container before the folder it lives in.
    for leftover in left.iter().rev() {
        remove(leftover);
    }
}

fn remove(leftover: &Leftover) {
    match leftover {
        Leftover::Folder(path) => repeat(|| is_gone(fs::remove_dir_all(path))),
        Leftover::Container { runtime, state, id } => {
            // A container that ended by itself is unknown to the runtime: nothing to do.
            if state.join(id).exists() {
                let _ = Command::new(runtime)
                    .arg("--root")
                    .arg(state)
                    .args(["delete", "--force", id])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status();
            }
        }
        Leftover::Journal(path) => {
            repeat(|| ::vm::attach::put_back(path, |_, _| {}).is_ok_and(|left| left == 0))
        }
        Leftover::TracingInstance(path) => repeat(|| is_gone(fs::remove_dir(path))),
        Leftover::TracingLine { file, undo } => repeat(|| is_gone(append(file, undo))),
        Leftover::Cgroup(name) => {
            for path in cgroups_named(name) {
                repeat(|| is_gone(remove_cgroup(&path)));
            }
        }
        Leftover::CpusetController => cpuset::disable(),
    }
}

/// Appends a line to a file of tracefs with one write, as tracefs requires. Opening the file without `O_APPEND` would
/// clear it.
///
/// # Errors
/// The file cannot be opened (opening it requires root), or the kernel refuses the line.
pub fn append(file: &Path, line: &str) -> io::Result<()> {
    fs::File::options().append(true).open(file)?.write_all(line.as_bytes())
}

/// Removes a cgroup and those below it. Fails while one of them holds processes.
fn remove_cgroup(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

/// Whether a removal leaves nothing.
fn is_gone(removal: io::Result<()>) -> bool {
    removal.err().is_none_or(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Repeats a step for up to five seconds, until it returns true: processes that are still ending hold what they use.
fn repeat(mut step: impl FnMut() -> bool) {
    for _ in 0..250 {
        if step() {
            return;
        }
        sleep(Duration::from_millis(20));
    }
}

/// Every cgroup with this name directly below a hierarchy's root or below this process's own cgroup.
pub fn cgroups_named(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let mut roots = vec![root.to_owned()];
    roots.extend(fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()));
    let own: Vec<String> = fs::read_to_string("/proc/self/cgroup")
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2).map(|path| path.trim_start_matches('/').to_owned()))
        .collect();
    let mut found: Vec<PathBuf> = roots
        .iter()
        .flat_map(|base| {
            own.iter()
                .map(|path| base.join(path))
                .chain([base.clone()])
                .map(|path| path.join(name))
                .collect::<Vec<_>>()
        })
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_and_not_removed_goes_when_the_pipe_closes() {
        let base = tempfile::tempdir().unwrap();
        let [kept, left] = ["kept", "left"].map(|name| base.path().join(name));
        for folder in [&kept, &left] {
            fs::create_dir_all(folder.join("inner")).unwrap();
        }
        let line = |message: &Message| serde_json::to_string(message).unwrap() + "\n";
        let text = line(&Message::Made(Leftover::Folder(kept.clone())))
            + &line(&Message::Made(Leftover::Folder(left.clone())))
            + &line(&Message::Removed(Leftover::Folder(kept.clone())))
            + "{\"made\":{\"fold";
        serve(text.as_bytes());
        assert!(kept.exists() && !left.exists());
    }
}
