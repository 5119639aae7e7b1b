//! Raw samples are kept after every block, whether or not the user named a file.

use std::path::{Path, PathBuf};

use measure::{Results, SaveError};

/// Writes the results to their file.
pub struct Saver {
    path: PathBuf,
    own: bool,
}

impl Saver {
    /// Saves to the user's file, or else to the file of the last run in the user's state folder.
    pub fn new(user: Option<&Path>) -> Self {
        match user {
            Some(path) => Saver { path: path.into(), own: false },
            None => Saver { path: state_folder().join("last-compare.json"), own: true },
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file whole or not at all.
    pub fn save(&self, results: &Results) -> Result<(), SaveError> {
        if self.own
            && let Some(folder) = self.path.parent()
        {
            std::fs::create_dir_all(folder)
                .map_err(|source| SaveError { path: self.path.clone(), source })?;
        }
        results.save(&self.path)
    }
}

/// XDG base directory specification: state that should persist between runs.
fn state_folder() -> PathBuf {
    std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
        .join("tautline")
}
