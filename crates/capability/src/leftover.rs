//! Cgroups and tracing instances, which outlive the process that made them. Everything else that a probe makes
//! (interfaces, namespaces, mappings, counters) belongs to descriptors and ends with the process.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::parent;
use super::probes::{cgroup_tree, tracefs};
use crate::sys;

/// The probe name with which a probe's process removes what killed probes have left.
pub const SWEEP: &str = "sweep";

const PREFIX: &str = "tautline-probe-";

/// A folder of cgroupfs or tracefs with this process's number in its name. The folder is removed on drop; until then
/// the death of the parent does not end this process.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder below `parent`, which is a cgroup or the `instances` of tracefs. SIGTERM is blocked until the
    /// folder is dropped.
    ///
    /// # Errors
    /// `mkdir` is refused: no permission, a read-only mount, or a folder of that name exists.
    pub fn create_in(parent: &Path) -> std::io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        hold_signals();
        match fs::create_dir(&path) {
            Ok(()) => Ok(Folder { path }),
            Err(error) => {
                release_signals();
                Err(error)
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder and reports the kernel's answer.
    ///
    /// # Errors
    /// `rmdir` is refused: the cgroup still has a process, or the tracing instance is in use.
    pub fn remove(self) -> std::io::Result<()> {
        fs::remove_dir(&self.path) // the drop that follows finds it gone
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
        release_signals();
    }
}

/// Blocks SIGTERM, which the parent's death sends, until the folder is removed.
fn hold_signals() {
    sys::hold(Signal::TERM, true);
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

fn release_signals() {
    parent::end_with_parent();
    sys::hold(Signal::TERM, false);
}

/// Removes the folders of processes that have ended.
pub fn sweep() {
    for hierarchy in cgroup_tree::hierarchies() {
        sweep_folder(&hierarchy.own);
    }
    if let Ok(tracefs) = tracefs::find_or_mount() {
        sweep_folder(&tracefs.join("instances"));
    }
}

fn sweep_folder(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
