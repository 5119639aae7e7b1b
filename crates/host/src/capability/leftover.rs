//! What outlives the process that made it: cgroups and tracing instances. Everything else a probe makes
//! (interfaces, namespaces, mappings, counters) belongs to its descriptors and ends with it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, set_parent_process_death_signal};

use super::parent;
use super::probes::{cgroup_tree, tracefs};
use crate::sys;

/// The name that makes a probe's process remove what killed ones have left.
pub const SWEEP: &str = "sweep";

const PREFIX: &str = "tautline-probe-";

/// A folder of cgroupfs or tracefs with this process's number in its name. Removed on drop; meanwhile the
/// death of the parent does not end this process.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
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

    /// Removes it, and says whether that worked.
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

/// The parent's death sends a signal that waits until the folder is gone.
fn hold_signals() {
    sys::hold(Signal::TERM, true);
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}

fn release_signals() {
    parent::end_with_parent();
    sys::hold(Signal::TERM, false);
}

/// Removes the folders of processes that are gone.
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
