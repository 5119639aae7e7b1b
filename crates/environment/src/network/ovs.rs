use std::path::Path;
use std::process::{Command, Stdio};

use linux::{Child, OutputFile};
use measure::Failure;
use rustix::process::Signal;

use super::Namespace;
use crate::openvswitch::{self, Instance, Programs};
use crate::spawn;

/// Open vSwitch with DPDK between a guest and the far end, which has the bridge's own interface. Dropping this value
/// ends the switch. The folder of the switch belongs to the caller.
#[derive(Debug)]
pub struct OvsDpdk {
    switch: Child,
    _database: Child,
}

const REMEDY: &str = "see its last output; DPDK takes 384 MiB of memory here";
const PORT: &str = "guest";

impl OvsDpdk {
    /// The network interface of the far end.
    pub const FAR_DEVICE: &str = openvswitch::BRIDGE;

    /// Starts the switch in the far end's namespace, with a back-end for a guest that listens at `socket`. The switch
    /// keeps its database and its sockets in `folder`; its packet thread polls on the last of `cpus`.
    pub(super) fn to_guest(
        socket: &Path,
        folder: &Path,
        far: &Namespace,
        cpus: &[usize],
    ) -> Result<Self, Failure> {
        let instance = Programs::installed()?.instance(folder);
        let output = OutputFile::new().map_err(|error| {
            Failure::new("preparing Open vSwitch", error, "check free memory and open files")
        })?;
        let explained = |failure: Failure| {
            let said = output.tail(2048).unwrap_or_default();
            let said = said.trim();
            let answer = if said.is_empty() { failure.answer } else { format!("{}; {said}", failure.answer) };
            Failure { answer, ..failure }
        };
        let start = |command: Command| {
            let mut command = openvswitch::started_by(far.command(command.get_program())?, &command);
            let tried = format!("starting {command:?}");
            let failed = |error: std::io::Error| Failure::new(&tried, error, REMEDY);
            let output = output.stdio().map_err(failed)?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
            spawn::spawn(&mut command).map_err(failed)
        };
        run(instance.create())?;
        let database = start(instance.serve_database())?;
        run(instance.configure(cpus, openvswitch::SMALL_PAGES, &[])).map_err(explained)?;
        let switch = OvsDpdk { switch: start(instance.switch())?, _database: database };
        connect(&instance, socket).map_err(explained)?;
        far.ip(&format!("link set {} up", Self::FAR_DEVICE))?;
        Ok(switch)
    }

    /// The process id of the switch.
    pub fn process_id(&self) -> u32 {
        self.switch.id()
    }

    /// Stops the switch, or lets it continue: its packet thread polls, and would otherwise take CPU time from other
    /// measurements.
    pub(super) fn set_running(&self, runs: bool) {
        // Fails only where it has ended, which its guest's flow tells.
        let _ = self.switch.signal(if runs { Signal::CONT } else { Signal::STOP });
    }
}

fn connect(instance: &Instance, socket: &Path) -> Result<(), Failure> {
    run(instance.add_bridge())?;
    if run(instance.vsctl(&["get", "Open_vSwitch", ".", "dpdk_initialized"]))?.trim() != "true" {
        return Err(Failure::new("starting DPDK in Open vSwitch", "it has not started", REMEDY));
    }
    run(instance.add_port(PORT, socket))?;
    match run(instance.vsctl(&["get", "Interface", PORT, "error"]))?.trim() {
        "[]" => Ok(()),
        error => Err(Failure::new("adding a port to Open vSwitch", error, REMEDY)),
    }
}

/// Runs one of its tools, which ends by itself.
fn run(mut command: Command) -> Result<String, Failure> {
    let tried = format!("running {command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::new(&tried, error, REMEDY))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::new(tried, said.trim(), REMEDY))
}
