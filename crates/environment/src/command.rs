//! Finds commands of this machine.

use std::path::PathBuf;

use rustix::fs::{Access, access};

/// The full path of a command in PATH or in the folders where distributions keep administrators' commands.
pub fn find_command(name: &str) -> Option<PathBuf> {
    folders().map(|folder| folder.join(name)).find(|file| access(file, Access::EXEC_OK).is_ok())
}

/// The folders in which commands are searched.
pub fn folders() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&path).collect();
    named.into_iter().chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
}
