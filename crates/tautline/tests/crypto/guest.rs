//! The guest's kernel tests our device before it lets any program use it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::{Child, OutputReader};
use peers::guest::{Guest, Settings};

/// Only a failing test waits for it.
pub const SOON: Duration = Duration::from_secs(60);

/// The command with one device.
pub struct Device {
    child: Child,
    stderr: OutputReader,
    folder: tempfile::TempDir,
}

impl Device {
    pub fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    /// Another process at the same socket.
    pub fn again(self) -> Self {
        let Device { folder, .. } = self;
        Self::start_in(folder)
    }

    /// SIGKILL: nothing is put in order.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    fn start_in(folder: tempfile::TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tautline"));
        command.args(["crypto", "--port"]);
        command.arg(format!("c=vhost-user:{}", folder.path().join("socket").display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = Child::spawn(&mut command).unwrap();
        let stderr = OutputReader::start(child.take_stderr().unwrap());
        Self { child, stderr, folder }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Requests that the device has served and those that have failed, once its front-end has gone.
    pub fn counts(&self) -> (u64, u64) {
        let found = self.stderr.wait_for(SOON, |said| {
            let counts = said.split("the front-end has disconnected; ").nth(1)?;
            let (served, failed) = counts.split_once(" requests served, ")?;
            Some((served.parse().ok()?, failed.split_once(" failed\n")?.0.parse().ok()?))
        });
        found.unwrap_or_else(|error| panic!("{error}; it said {}", self.stderr.text()))
    }
}

/// A value of the driver's entry in /proc/crypto.
fn registered(guest: &Guest, field: &str) -> Option<String> {
    let entries = guest.must("cat /proc/crypto");
    let driver = |entry: &&str| entry.lines().any(|line| line.ends_with(": virtio_crypto_aes_cbc"));
    let entry = entries.split("\n\n").find(driver)?;
    let line = entry.lines().find(|line| line.split(':').next().map(str::trim) == Some(field))?;
    Some(line.split_once(": ")?.1.to_owned())
}

/// Waits until the kernel has tested the driver's cipher with the device.
pub fn self_test(guest: &Guest) {
    let wait = "for i in $(seq 100); do grep -q 'selftest.*unknown' /proc/crypto || break; sleep 0.1; done";
    guest.must(wait);
    let dmesg = guest.must("dmesg | grep -i -e alg: -e crypto || true");
    assert_eq!(registered(guest, "selftest").as_deref(), Some("passed"), "{dmesg}");
    assert!(!dmesg.contains("alg: skcipher: virtio_crypto"), "{dmesg}");
}

/// The line that runs one test of this program in a guest that has brought it along.
pub fn test_line(variables: &str, test: &str) -> String {
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    format!("{variables} {name} --exact {test} --ignored --nocapture 2>&1")
}

/// Has the guest run a test of this program; what it printed.
pub fn run_test(guest: &Guest, variables: &str, test: &str) -> String {
    let output = guest.run_within(&test_line(variables, test), Duration::from_secs(300)).unwrap();
    assert!(output.success(), "{}", output.stdout);
    output.stdout
}

/// QEMU 7.2, where the host is Debian 12: the message of a session has the number first.
#[test]
fn the_self_test_of_a_stock_kernel_passes() {
    boots_and_tests(Settings::default());
}

/// The message of a session has the operation first.
#[test]
fn the_self_test_of_a_stock_kernel_passes_with_qemu_10() {
    boots_and_tests(Settings::default().newer_qemu());
}

fn boots_and_tests(settings: Settings) {
    let device = Device::start();
    let guest = settings.crypto(&device.socket()).start().unwrap();
    self_test(&guest);
    drop(guest);
    let (served, failed) = device.counts();
    println!("{served} requests served");
    assert!(served >= 50 && failed == 0, "{served} requests served, {failed} failed");
}
