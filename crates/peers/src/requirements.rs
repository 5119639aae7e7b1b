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

    /// Either all is there, or the list of what is not.
    pub fn met(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Missing(self.0)) }
    }
}

/// Whether a test that needs this goes on: true where it is there. Where it is missing, the user decides: the test
/// ends early if `TAUTLINE_SKIP` names it.
///
/// # Panics
/// It is missing, and `TAUTLINE_SKIP` does not name it.
pub fn required(name: &str, is_there: bool, remedy: &str) -> bool {
    let skipped = std::env::var("TAUTLINE_SKIP").unwrap_or_default();
    let is_skipped = skipped.split(',').any(|skipped| skipped == name);
    assert!(
        is_there || is_skipped,
        "this test needs {name}, which is missing here: {remedy}, or set TAUTLINE_SKIP={name} to go without this test"
    );
    if !is_there {
        crate::absent::record(name, "TAUTLINE_SKIP names it");
    }
    is_there
}

/// Whether this test, or a part of it, runs as root.
///
/// # Panics
/// As [`required`] does.
pub fn root_required() -> bool {
    required("root", is_root(), "run the tests as root, or through sudo")
}

/// Whether this process has the effective user 0.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fails_a_test() {
        assert!(required("a-peer", true, "install it"));
        let failed = std::panic::catch_unwind(|| required("a-peer", false, "install it")).unwrap_err();
        let said = failed.downcast_ref::<String>().unwrap();
        assert!(said.contains("install it, or set TAUTLINE_SKIP=a-peer"), "{said}");
    }

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
