use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linux::{Child, OutputFile};
use measure::Failure;
use rustix::process::Signal;

use super::namespace::{host_ip, program};
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
    /// The relay between a guest and a device of the switch. It ends before the switch removes the device.
    relay: Option<Child>,
    /// Whether it has devices that the kernel keeps if it is killed.
    ends_in_order: bool,
}

/// A switch between two interfaces of the kernel.
pub(super) struct OverVduse {
    pub switch: Switch,
    /// The interface of the near end.
    pub near_device: String,
    /// The interface of the far end.
    pub far_device: String,
}

/// A switch between a vDPA device, whose rings a relay gives to a guest, and an interface of the kernel.
pub(super) struct BehindRelay {
    pub switch: Switch,
    /// The interface of the far end.
    pub far_device: String,
}

impl Drop for Switch {
    fn drop(&mut self) {
        drop(self.relay.take());
        if self.ends_in_order && self.process.signal(Signal::TERM).is_ok() {
            let _ = self.process.wait_within(END_LIMIT);
        }
    }
}

/// How long it may take until its devices are there.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take until it has removed its devices.
const END_LIMIT: Duration = Duration::from_secs(10);

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
        let switch = Self::launch(&mut near.command(&agent.binary)?, &ports, None, || {
            is_there(Self::NEAR_DEVICE) && is_there(Self::FAR_DEVICE)
        })?;
        near.ip(&format!("link set {} netns {}", Self::FAR_DEVICE, far.holder()))?;
        near.ip(&format!("link set {} up", Self::NEAR_DEVICE))?;
        far.ip(&format!("link set {} up", Self::FAR_DEVICE))?;
        Ok(switch)
    }

    /// Starts the switch on the host, with a network interface of the kernel (VDUSE) for each end, and moves both into
    /// the ends' namespaces.
    ///
    /// # Errors
    /// The kernel has no VDUSE, or this user may not use it.
    pub(super) fn over_vduse(near: &Namespace, far: &Namespace, agent: &Agent) -> Result<OverVduse, Failure> {
        // Devices have the whole machine's names.
        let names = [near, far].map(|end| format!("tautline-{}", end.holder()));
        let ports = [format!("near=vduse:{}", names[0]), format!("far=vduse:{}", names[1])];
        let is_ready = || names.iter().all(|name| vduse_interface(name).is_some());
        let switch = Self::launch(&mut on_the_host(agent)?, &ports, None, is_ready)?;
        Ok(OverVduse { near_device: moved(&names[0], near)?, far_device: moved(&names[1], far)?, switch })
    }

    /// Starts the switch on the host with a vDPA device (VDUSE) and with a network interface of the kernel, which is moved
    /// to the far end's namespace. Starts a relay too, which gives the rings of a guest at `socket` to the device.
    ///
    /// # Errors
    /// The kernel has no VDUSE or no vhost-vdpa, or this user may not use them.
    pub(super) fn behind_relay(
        socket: &Path,
        far: &Namespace,
        agent: &Agent,
    ) -> Result<BehindRelay, Failure> {
        let [device, interface] = ["device", "far"].map(|end| format!("tautline-{}-{end}", far.holder()));
        let ports = [format!("near=vduse:{device},driver=vhost_vdpa"), format!("far=vduse:{interface}")];
        let file = || linux::vdpa::made(&device).filter(|made| made.starts_with('/'));
        let is_ready = || file().is_some() && vduse_interface(&interface).is_some();
        let mut switch = Self::launch(&mut on_the_host(agent)?, &ports, None, is_ready)?;
        let mut relay = on_the_host(agent)?;
        relay.args(["vdpa", "--port", &format!("guest=vhost-user:{}", socket.display()), "--device"]);
        relay.arg(file().unwrap_or_default());
        switch.relay = Some(start(&mut relay, || socket.exists())?);
        Ok(BehindRelay { far_device: moved(&interface, far)?, switch })
    }

    /// Starts the switch in the far end's namespace, with a back-end for a guest that listens at `socket`.
    pub(super) fn to_guest(socket: &Path, far: &Namespace, agent: &Agent) -> Result<Self, Failure> {
        let ports = [
            format!("{}=vhost-user:{}", Self::GUEST_PORT, socket.display()),
            format!("far=tap:{}", Self::FAR_DEVICE),
        ];
        let control = socket.with_extension("control");
        let mut switch = Self::launch(&mut far.command(&agent.binary)?, &ports, Some(&control), || {
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
        command: &mut Command,
        ports: &[String],
        control: Option<&Path>,
        is_ready: impl Fn() -> bool,
    ) -> Result<Self, Failure> {
        command.arg("switch");
        for port in ports {
            command.args(["--port", port]);
        }
        if let Some(socket) = control {
            command.arg("--control").arg(socket);
        }
        let ends_in_order = ports.iter().any(|port| port.contains("=vduse:"));
        Ok(Switch { process: start(command, is_ready)?, control: None, relay: None, ends_in_order })
    }

    /// Its process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}

/// Our program on the host. If this process is killed, the program still removes its devices.
fn on_the_host(agent: &Agent) -> Result<Command, Failure> {
    let mut command = Command::new(program("setpriv", "util-linux")?);
    command.args(["--pdeathsig", "TERM", "--"]).arg(&agent.binary);
    Ok(command)
}

/// Starts a program and waits until it is ready.
fn start(command: &mut Command, is_ready: impl Fn() -> bool) -> Result<Child, Failure> {
    let tried = format!("starting the switch of a network path: {command:?}");
    let failed =
        |answer: String| Failure::new(&tried, answer, "open /dev/net/tun to this user, or run as root");
    let output = OutputFile::new().map_err(|error| failed(error.to_string()))?;
    let stdio = || output.stdio().map_err(|error| failed(error.to_string()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stdio()?);
    let mut process = spawn::spawn(command).map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + START_LIMIT;
    while !is_ready() {
        let ended = process.try_wait().ok().flatten();
        if ended.is_some() || Instant::now() > until {
            // A switch removes its devices if it is told to end.
            let _ = process.signal(Signal::TERM).and_then(|()| process.wait_within(END_LIMIT));
            let said = output.tail(4096).unwrap_or_default();
            let how = ended.map_or("its ports are not there".to_owned(), |status| status.to_string());
            return Err(failed(format!("{how}; its last output: {}", said.trim())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(process)
}

/// Moves the interface of a VDUSE device to a namespace, and returns its name.
fn moved(name: &str, to: &Namespace) -> Result<String, Failure> {
    let device = vduse_interface(name).unwrap_or_default();
    host_ip(&format!("link set {device} netns {}", to.holder()))?;
    to.ip(&format!("link set {device} up"))?;
    Ok(device)
}

/// The network interface that the kernel has made of a VDUSE device.
fn vduse_interface(name: &str) -> Option<String> {
    linux::vdpa::made(name).filter(|made| !made.starts_with('/'))
}
