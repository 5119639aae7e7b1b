//! The distribution's real-time kernel, as set-up has unpacked it.

use std::path::PathBuf;

use crate::requirements::Requirements;

/// The newest real-time kernel.
pub fn find(needs: &mut Requirements) -> PathBuf {
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    let folder = folder.unwrap_or_else(home).join("tautline/realtime");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_image =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"));
    files.filter(is_image).max().unwrap_or_else(|| {
        needs.missing(format!(
            "a real-time kernel in {} (scripts/setup.sh test fetches one)",
            folder.display()
        ));
        PathBuf::new()
    })
}
