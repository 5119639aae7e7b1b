//! `tautline host` as a user calls it: on copies of recorded hosts, and in a booted machine.

mod booted;
mod killed;
mod recorded;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

/// How many points of a run a process is killed at: `TAUTLINE_KILL_POINTS`, or a few.
fn kill_points() -> usize {
    std::env::var("TAUTLINE_KILL_POINTS").map_or(6, |points| points.parse().expect("a number of points"))
}

/// Unpacks a host of crate `host`'s tests.
fn unpack(name: &str) -> tempfile::TempDir {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/host/hosts");
    let text = std::fs::read_to_string(hosts.join(format!("{name}.host"))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    host::recorded::unpack(&text, folder.path()).unwrap();
    folder
}

/// A recorded host, and a folder for the journal and whatever else a test writes.
struct Recorded {
    folder: tempfile::TempDir,
    place: tempfile::TempDir,
}

impl Recorded {
    fn new(name: &str) -> Self {
        Recorded { folder: unpack(name), place: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn place(&self, file: &str) -> String {
        self.place.path().join(file).to_str().unwrap().to_owned()
    }

    fn snapshot(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        snapshot(self.folder.path())
    }
}

fn host(arguments: &[&str]) -> Output {
    Command::new(BINARY).arg("host").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every file below, with its content, and every folder.
fn snapshot(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            all.extend(snapshot(&path));
            all.push((path, None));
        } else {
            let content = std::fs::read(&path).unwrap();
            all.push((path, Some(content)));
        }
    }
    all.sort();
    all
}
