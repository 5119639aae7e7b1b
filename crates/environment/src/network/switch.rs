use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use linux::{Child, OutputFile};
use measure::Failure;

use super::{Namespace, OvsDpdk};
use crate::{Agent, spawn};

/// A switch in user space between two ends.
#[derive(Debug)]
pub enum UserSpaceSwitch {
    /// Our own.
    Tautline(Switch),
    /// Open vSwitch with DPDK.
    OvsDpdk(OvsDpdk),
}

impl UserSpaceSwitch {
    /// Its process.
    pub fn process_id(&self) -> u32 {
        match self {
            UserSpaceSwitch::Tautline(switch) => switch.process_id(),
            UserSpaceSwitch::OvsDpdk(switch) => switch.process_id(),
        }
    }
}

/// `tautline switch` between two ends: a process of its own that makes the ends' TAP devices, or a guest's socket,
/// and removes them when it ends.
#[derive(Debug)]
pub struct Switch {
    process: Child,
    /// The control socket of a switch that serves a guest.
    control: Option<PathBuf>,
}

/// How long it may take until its devices are there.
const START_LIMIT: Duration = Duration::from_secs(20);

impl Switch {
    /// The TAP device of the near end.
    pub const NEAR_DEVICE: &str = "tap0";
    /// The TAP device of the far end.
    pub const FAR_DEVICE: &str = "tap1";
    /// The name that the switch gives to the guest's port.
    pub const GUEST_PORT: &str = "near";

    /// Starts the switch in the near end's namespace, and moves the far end's device into the far end's namespace.
    pub(super) fn start(near: &Namespace, far: &Namespace, agent: &Agent) -> Result<Self, Failure> {
        let ports = [format!("near=tap:{}", Self::NEAR_DEVICE), format!("far=tap:{}", Self::FAR_DEVICE)];
        let is_there = |device| near.ip(&format!("link show dev {device}")).is_ok();
        let switch = Self::launch(near, &ports, None, agent, || {
            is_there(Self::NEAR_DEVICE) && is_there(Self::FAR_DEVICE)
        })?;
        near.ip(&format!("link set {} netns {}", Self::FAR_DEVICE, far.holder()))?;
        near.ip(&format!("link set {} up", Self::NEAR_DEVICE))?;
        far.ip(&format!("link set {} up", Self::FAR_DEVICE))?;
        Ok(switch)
    }

    /// Starts the switch in the far end's namespace, with a back-end for a guest that listens at `socket`.
    pub(super) fn to_guest(socket: &Path, far: &Namespace, agent: &Agent) -> Result<Self, Failure> {
        let ports = [
            format!("{}=vhost-user:{}", Self::GUEST_PORT, socket.display()),
            format!("far=tap:{}", Self::FAR_DEVICE),
        ];
        let control = socket.with_extension("control");
        let mut switch = Self::launch(far, &ports, Some(&control), agent, || {
            socket.exists() && far.ip(&format!("link show dev {}", Self::FAR_DEVICE)).is_ok()
        })?;
        far.ip(&format!("link set {} up", Self::FAR_DEVICE))?;
        switch.control = Some(control);
        Ok(switch)
    }

    /// The path of the control socket (`tautline ctl`), if the switch serves a guest.
    pub fn control(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    fn launch(
        namespace: &Namespace,
        ports: &[String],
        control: Option<&Path>,
        agent: &Agent,
        is_ready: impl Fn() -> bool,
    ) -> Result<Self, Failure> {
        let mut command = namespace.command(&agent.binary)?;
        command.arg("switch");
        for port in ports {
            command.args(["--port", port]);
        }
        if let Some(socket) = control {
            command.arg("--control").arg(socket);
        }
        let tried = format!("starting the switch of a network path: {command:?}");
        let failed =
            |answer: String| Failure::new(&tried, answer, "open /dev/net/tun to this user, or run as root");
        let output = OutputFile::new().map_err(|error| failed(error.to_string()))?;
        let stdio = || output.stdio().map_err(|error| failed(error.to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stdio()?);
        let process = spawn::spawn(&mut command).map_err(|error| failed(error.to_string()))?;
        let mut switch = Switch { process, control: None };
        let until = Instant::now() + START_LIMIT;
        while !is_ready() {
            let ended = switch.process.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > until {
                let said = output.tail(4096).unwrap_or_default();
                let how = ended.map_or("its ports are not there".to_owned(), |status| status.to_string());
                return Err(failed(format!("{how}; its last output: {}", said.trim())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(switch)
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}
