//! Programs of others that the tests talk to.
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program's path; a test without it fails and says how to get it. Variables name other builds of two of them, as in
/// `peers::chosen`.
pub fn need(program: &str, package: &str) -> PathBuf {
    let chosen = match program {
        "qemu-system-x86_64" => std::env::var_os("TAUTLINE_QEMU"),
        "dpdk-testpmd" => std::env::var_os("TAUTLINE_TESTPMD"),
        _ => None,
    };
    if let Some(chosen) = chosen {
        return chosen.into();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{program} is needed for this test; install it: apt-get install {package}"))
}

/// A file that a program needs beside it.
pub fn need_file(path: &str, package: &str) {
    assert!(
        std::path::Path::new(path).is_file(),
        "{path} is needed for this test; install it: apt-get install {package}"
    );
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).spawn();
        Self(child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
