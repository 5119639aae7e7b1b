//! The controller `cpuset` of cgroup v2, for the cgroups below the root.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the cgroup hierarchy: the only cgroup that is always a valid partition.
pub const ROOT: &str = "/sys/fs/cgroup";

/// The cgroups directly below the root.
pub fn cgroups() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(ROOT).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// Disables the controller, unless a cgroup below the root has CPUs or memory nodes of its own.
pub fn disable() {
    let is_set =
        |folder: &Path, file| fs::read_to_string(folder.join(file)).is_ok_and(|text| !text.trim().is_empty());
    if !cgroups().any(|folder| is_set(&folder, "cpuset.cpus") || is_set(&folder, "cpuset.mems")) {
        // Fails where a cgroup below has enabled it for its own: it stays, then.
        let _ = fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "-cpuset");
    }
}
