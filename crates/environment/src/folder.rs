//! A folder for temporary files that is removed in whatever way the process ends.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use measure::Failure;

use crate::janitor::{Janitor, Leftover};

/// A folder for temporary files that the janitor knows. The folder is removed when this value is dropped.
pub struct Folder {
    path: PathBuf,
    janitor: Arc<Janitor>,
}

impl Folder {
    /// Makes a folder in the folder for temporary files, named for `what` and this process.
    ///
    /// # Errors
    /// The system refuses to make the folder.
    pub fn make(what: &str, janitor: &Arc<Janitor>) -> Result<Self, Failure> {
        // The janitor is told before the folder is made, and removes what has this name: it must not exist yet.
        let path = loop {
            let random = RandomState::new().hash_one(what) as u32;
            let name = format!("tautline-{what}-{}-{random:08x}", std::process::id());
            let path = std::env::temp_dir().join(name);
            if path.symlink_metadata().is_err() {
                break path;
            }
        };
        janitor.made(&Leftover::Folder(path.clone()));
        let folder = Folder { path, janitor: Arc::clone(janitor) };
        std::fs::create_dir(&folder.path).map_err(|error| {
            let remedy = "free some space, or set TMPDIR to a folder with some, which this user may write";
            Failure::new(format!("making {}", folder.path.display()), error, remedy)
        })?;
        Ok(folder)
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.janitor.remove(&Leftover::Folder(self.path.clone()));
    }
}
