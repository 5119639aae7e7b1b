//! Finds out, before anything is started, whether this machine meets a peer's requirements.

use std::path::{Path, PathBuf};

use crate::Error;

/// Collects the requirements that are not met, so that one failure names all of them.
#[derive(Default)]
pub struct Requirements(Vec<String>);

impl Requirements {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// A program's path. Looks for a program; administrators' folders are searched even if they are not in this
    /// user's `PATH`.
    pub fn program(&mut self, name: &str, package: &str) -> PathBuf {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path);
        let folders = folders.chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
        let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
        found.unwrap_or_else(|| {
            self.0.push(format!("{name} (apt-get install {package})"));
            PathBuf::new()
        })
    }

    /// Requires a file or folder at this path.
    pub fn path(&mut self, path: &Path, remedy: &str) {
        if !path.exists() {
            self.0.push(format!("{} ({remedy})", path.display()));
        }
    }

    /// Requires the super-user's rights.
    pub fn root(&mut self) {
        if !is_root() {
            self.0.push("the rights of root (run as root, or through sudo)".into());
        }
    }

    /// Adds a requirement that was found not to be met in another way.
    pub fn missing(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// A requirement is not met. The error lists each missing requirement with its remedy.
    pub fn met(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Missing(self.0)) }
    }
}

/// Whether this test, or a part of it, runs as root.
///
/// # Panics
/// Panics like [`required`](crate::required).
pub fn root_required() -> bool {
    crate::required("root", is_root(), "run the tests as root, or through sudo")
}

/// Whether this process has the effective user 0.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let mut needs = Requirements::new();
        assert!(needs.program("sh", "dash").is_file());
        needs.program("no-such-program", "its-package");
        needs.path(Path::new("/no/such/file"), "make it");
        let error = needs.met().unwrap_err().to_string();
        for part in ["no-such-program", "apt-get install its-package", "/no/such/file", "make it"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(Requirements::new().met().is_ok());
    }
}
