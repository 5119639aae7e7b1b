//! `scripts/setup.sh` says what it will install before it does so, and asks before it uses sudo, on a terminal only.
//! apt-get, sudo and the user are stand-ins that print what they are asked for: nothing is installed here.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What the script itself runs; all other commands are missing on this machine.
const TOOLS: [&str; 17] = [
    "sh", "env", "uname", "sed", "grep", "ls", "sort", "head", "tail", "cut", "tr", "mktemp", "chmod", "rm",
    "mkdir", "cp", "mv",
];

/// A machine that lacks all but a recent Rust and a kernel.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new(user: u32) -> Self {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for tool in TOOLS {
            symlink(found(tool), bin.join(tool)).unwrap();
        }
        let stand_in = |name: &str, script: &str| {
            let file = bin.join(name);
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        };
        stand_in("id", &format!("echo {user}"));
        stand_in("rustc", "echo 'rustc 1.999.0 (stand-in)'");
        stand_in("cargo", "");
        stand_in("apt-cache", "");
        // Its words go where apt-get's warnings go.
        stand_in("apt-get", "echo \"RAN apt-get $*\" >&2");
        stand_in(
            "sudo",
            "echo \"RAN sudo $*\" >&2\n[ \"$1\" != -n ] || shift\n[ \"$1\" = true ] || exec \"$@\"",
        );
        let kernel = folder.path().join("cache/tautline/kernel");
        fs::create_dir_all(&kernel).unwrap();
        fs::write(kernel.join("vmlinuz-1"), "").unwrap();
        Machine { folder }
    }

    fn without(self, tool: &str) -> Self {
        fs::remove_file(self.folder.path().join("bin").join(tool)).unwrap();
        self
    }

    /// What it printed, and its exit code. On a terminal `answer` is typed; otherwise there is none.
    fn set_up(&self, answer: Option<&str>) -> (String, Option<i32>) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/setup.sh");
        let script = format!("{} 2>&1", script.to_str().unwrap());
        let mut command = match answer {
            // Runs a command on a terminal of its own.
            Some(_) => Command::new(found("script")),
            None => Command::new(found("sh")),
        };
        match answer {
            Some(_) => command.args(["-q", "-e", "-c", &script, "/dev/null"]),
            None => command.args(["-c", &script]),
        };
        let mut child = command
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("SHELL", "/bin/sh")
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path().join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keyboard = child.stdin.take().unwrap();
        keyboard.write_all(answer.unwrap_or_default().as_bytes()).unwrap();
        drop(keyboard);
        let output = child.wait_with_output().unwrap();
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }
}

fn found(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let file = std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file());
    file.unwrap_or_else(|| panic!("{tool} is not installed; `make setup` runs on systems that have it"))
}

/// Where each of `parts` stands, one behind the other.
fn assert_in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} behind the others in:\n{text}"));
        rest = &rest[at + part.len()..];
    }
}

const QUESTION: &str = "use sudo for this? [Y/n]";

#[test]
fn on_a_terminal_it_shows_what_is_missing_and_asks_before_it_uses_sudo() {
    for answer in ["\n", "y\n", "Yes\n"] {
        let (text, code) = Machine::new(1000).set_up(Some(answer));
        assert_in_order(
            &text,
            &["to be installed:", "gcc", QUESTION, "RAN sudo apt-get update", "RAN sudo env"],
        );
        assert_in_order(&text, &["RAN apt-get install", "gcc"]);
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn a_no_leaves_the_machine_alone_and_prints_the_command() {
    for answer in ["n\n", "no\n", "whatever\n", ""] {
        let (text, code) = Machine::new(1000).set_up(Some(answer));
        assert_in_order(
            &text,
            &["to be installed:", QUESTION, "sudo apt-get install --no-install-recommends", "gcc"],
        );
        assert!(!text.contains("RAN"), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }
}

#[test]
fn without_a_terminal_it_goes_on_by_itself() {
    let (text, code) = Machine::new(1000).set_up(None);
    assert_in_order(
        &text,
        &["to be installed:", "gcc", "RAN sudo -n apt-get update", "RAN apt-get install", "gcc"],
    );
    assert!(!text.contains(QUESTION), "{text}");
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn root_is_not_asked_and_needs_no_sudo() {
    for answer in [None, Some("n\n")] {
        let (text, code) = Machine::new(0).set_up(answer);
        assert_in_order(
            &text,
            &["to be installed:", "gcc", "RAN apt-get update", "RAN apt-get install", "gcc"],
        );
        assert!(!text.contains(QUESTION) && !text.contains("RAN sudo"), "{text}");
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn without_sudo_or_apt_it_prints_what_to_install() {
    for answer in [None, Some("y\n")] {
        let (text, code) = Machine::new(1000).without("sudo").set_up(answer);
        assert_in_order(
            &text,
            &["to be installed:", "gcc", "sudo apt-get install --no-install-recommends", "gcc"],
        );
        assert!(!text.contains("RAN") && !text.contains(QUESTION), "{text}");
        assert_eq!(code, Some(1), "{text}");

        let (text, code) = Machine::new(1000).without("apt-get").set_up(answer);
        assert_in_order(&text, &["has no apt-get; please install", "gcc"]);
        assert!(!text.contains("RAN") && !text.contains(QUESTION), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }
}
