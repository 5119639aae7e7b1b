//! A folder for temporary files that is removed however the process ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use measure::Failure;

use crate::janitor::{Janitor, Leftover};

/// A folder for temporary files that the janitor knows. Removed when dropped.
pub struct Folder {
    path: PathBuf,
    janitor: Arc<Janitor>,
}

impl Folder {
    /// Makes a folder of this process in the folder for temporary files, named for `what`.
    ///
    /// # Errors
    /// The folder exists already, or the system refuses it.
    pub fn make(what: &str, janitor: &Arc<Janitor>) -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("tautline-{what}-{}", std::process::id()));
        janitor.made(&Leftover::Folder(path.clone()));
        let folder = Folder { path, janitor: Arc::clone(janitor) };
        std::fs::create_dir(&folder.path).map_err(|error| {
            let remedy = "free some space, or set TMPDIR to a folder with some";
            Failure::new(format!("making {}", folder.path.display()), error, remedy)
        })?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.janitor.remove(&Leftover::Folder(self.path.clone()));
    }
}
