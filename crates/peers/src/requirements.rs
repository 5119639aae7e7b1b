//! What a peer needs on this machine, looked for before anything is started.

use std::path::{Path, PathBuf};

use crate::Error;

/// Collects what is missing, so that one failure names all of it.
#[derive(Default)]
pub struct Requirements(Vec<String>);

impl Requirements {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// A program's path. Administrators' folders count, whether or not they are in this user's `PATH`.
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

    /// A file or folder at a known place.
    pub fn path(&mut self, path: &Path, remedy: &str) {
        if !path.exists() {
            self.0.push(format!("{} ({remedy})", path.display()));
        }
    }

    /// The super-user's rights.
    pub fn root(&mut self) {
        if !is_root() {
            self.0.push("the rights of root (run as root, or through sudo)".into());
        }
    }

    /// Anything else that is found out by asking.
    pub fn missing(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// Something is missing. The error lists each thing with the way to get it.
    pub fn met(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Missing(self.0)) }
    }
}

/// Whether this test, or a part of it, runs as root.
///
/// # Panics
/// As [`required`](crate::required) does.
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
