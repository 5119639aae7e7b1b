//! DPDK's testpmd: its vhost library is the device.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::soon;

/// A running testpmd; it ends with this value.
pub struct Testpmd(Child);

/// What it is to be.
pub struct Setup<'a> {
    /// Of its runtime files: different for all that run at a time.
    pub prefix: &'a str,
    /// The arguments of each `net_vhost`, without its name.
    pub devices: &'a [String],
    pub queues: u16,
    /// What testpmd does with what it receives.
    pub forward: &'a str,
    pub more: &'a [&'a str],
}

fn program() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join("dpdk-testpmd"))
        .find(|path| path.is_file())
        .expect("dpdk-testpmd is needed for this test; install it: apt-get install dpdk-dev")
}

impl Testpmd {
    pub fn start(folder: &Path, setup: Setup<'_>) -> Self {
        let mut command = Command::new(program());
        command.env("RUNTIME_DIRECTORY", folder);
        command.args(["--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0,1"]);
        command.args(["--file-prefix", setup.prefix]);
        for (i, device) in setup.devices.iter().enumerate() {
            command.arg("--vdev").arg(format!("net_vhost{i},{device}"));
        }
        let queues = setup.queues.to_string();
        command.args(["--", "-i", "--auto-start", "--disable-link-check", "--total-num-mbufs=4096"]);
        command.args(["--rxq", &queues, "--txq", &queues]);
        command.arg(format!("--forward-mode={}", setup.forward));
        command.arg(format!("--port-topology={}", if setup.devices.len() == 1 { "loop" } else { "paired" }));
        command.args(setup.more);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut testpmd = Testpmd(child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")));
        testpmd.wait_for_prompt();
        testpmd
    }

    /// It forwards before it prompts. A driver that comes while it is still starting can be overlooked: its
    /// `net_vhost` sets the queues up twice then, and may leave them closed.
    fn wait_for_prompt(&mut self) {
        let mut output = self.0.stdout.take().unwrap();
        let (said, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (mut text, mut bytes) = (String::new(), [0; 1024]);
            // To its end, so that it never waits for a reader.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
                if text.contains("testpmd> ") {
                    let _ = said.send(std::mem::take(&mut text));
                }
            }
            let _ = said.send(text);
        });
        let text = hears.recv_timeout(soon() - Instant::now()).expect("testpmd does not start");
        assert!(text.contains("testpmd> "), "testpmd ended: {text}");
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
