//! The systems at the host's end of the rings, each as processes of its own.
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use peers::testpmd::{Forward, Vdev};
use peers::{OvsDpdk, Testpmd};
use serde_json::Value;

use crate::bench::Place;
use crate::cell::{System, Topology};
use crate::child::LineChild;
use crate::order::Setup;
use crate::usage::{self, Reading, Spent};

/// Who listens on the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    Device,
    Driver,
}

/// A system that is up.
pub struct Device {
    pub system: System,
    pub sockets: Vec<PathBuf>,
    kind: Kind,
    begin: Instant,
}

enum Kind {
    Switch(LineChild),
    Port(LineChild),
    Testpmd { testpmd: Testpmd, forward: Option<Forward>, bytes: u16 },
    Ovs(Box<OvsDpdk>),
}

/// The two addresses at the guest's end.
pub const ADDRESSES: [&str; 2] = ["02:00:00:00:aa:01", "02:00:00:00:aa:02"];

impl Device {
    pub fn start(
        system: System,
        topology: Topology,
        folder: &Path,
        place: &Place,
        setup: &Setup,
    ) -> anyhow::Result<Self> {
        let cpu = place.switch_cpu;
        let name = format!("{system:?}-{}", topology.ports());
        let sockets: Vec<PathBuf> =
            (0..topology.ports()).map(|port| folder.join(format!("{name}-{port}"))).collect();
        let doing = || format!("starting {}", system.name());
        let kind = match system {
            System::TautlineWire | System::TautlineLearning => {
                Kind::Switch(switch(system, &sockets, &place.program, cpu)?)
            }
            System::TautlinePort => {
                let own = std::env::current_exe().context("finding this program")?;
                let socket = sockets[0].display().to_string();
                let arguments = ["endpoint".to_owned(), socket, cpu.to_string()];
                Kind::Port(LineChild::start(system.name(), &own, &arguments)?)
            }
            System::Testpmd => {
                let settings = setup.device().forwarding_cpu(cpu);
                let settings = sockets.iter().fold(settings, |s, socket| s.port(Vdev::vhost(socket)));
                Kind::Testpmd { testpmd: settings.start().with_context(doing)?, forward: None, bytes: 0 }
            }
            System::OvsLearning | System::OvsPortFlow => {
                // Its packet thread takes the last CPU, which is the switch's.
                let ovs = setup.ovs().start().with_context(doing)?;
                for (name, socket) in ["a", "b"].iter().zip(&sockets) {
                    ovs.add_port(name, socket).with_context(doing)?;
                }
                if system == System::OvsPortFlow {
                    ovs.connect("a", "b").with_context(doing)?;
                }
                Kind::Ovs(Box::new(ovs))
            }
            System::KernelBridge => bail!("{} has no rings: kernel_bridge.rs measures it", system.name()),
        };
        let device = Device { system, sockets, kind, begin: Instant::now() };
        if device.listener() == Listener::Device {
            for socket in &device.sockets {
                peers::socket::wait_for_listener(socket, crate::PATIENCE).with_context(doing)?;
            }
        }
        Ok(device)
    }

    pub fn listener(&self) -> Listener {
        if matches!(self.kind, Kind::Ovs(_)) { Listener::Driver } else { Listener::Device }
    }

    /// Its processes.
    pub fn id(&self) -> u32 {
        match &self.kind {
            Kind::Switch(child) | Kind::Port(child) => child.id(),
            Kind::Testpmd { testpmd, .. } => testpmd.id(),
            Kind::Ovs(ovs) => ovs.id(),
        }
    }

    /// The drivers are there: waits until the system knows.
    pub fn wait_for_links(&self) -> anyhow::Result<()> {
        if let Kind::Ovs(ovs) = &self.kind {
            for port in ["a", "b"] {
                ovs.wait_for_link(port)?;
            }
        }
        Ok(())
    }

    /// From now on frames are moved, in this way and of this size where it makes them.
    pub fn begin(&mut self, topology: Topology, frame_bytes: u16) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Switch(_) => Ok(()),
            Kind::Port(child) => {
                match topology {
                    Topology::GuestToHost => child.tell("from-guest")?,
                    Topology::HostToGuest => child.tell(&format!("to-guest {frame_bytes}"))?,
                    Topology::Loop | Topology::Vm2vm => child.tell("reflect")?,
                }
                child.answer().map(drop)
            }
            Kind::Testpmd { testpmd, forward, bytes } => {
                let wanted = match topology {
                    Topology::GuestToHost => Forward::RxOnly,
                    Topology::HostToGuest => Forward::TxOnly,
                    Topology::Loop => Forward::Mac,
                    Topology::Vm2vm => Forward::Io,
                };
                if *forward != Some(wanted) {
                    testpmd.set_forward(wanted)?;
                    *forward = Some(wanted);
                }
                if *bytes != frame_bytes {
                    testpmd.set_frame_size(frame_bytes)?;
                    *bytes = frame_bytes;
                }
                Ok(testpmd.start_forwarding()?)
            }
            Kind::Ovs(_) => self.resume(),
        }
    }

    /// Nothing is moved any more, and no CPU is used.
    pub fn end(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            // It sleeps when nothing comes.
            Kind::Switch(_) => Ok(()),
            Kind::Port(child) => {
                child.tell("pause")?;
                child.answer().map(drop)
            }
            Kind::Testpmd { testpmd, .. } => Ok(testpmd.stop_forwarding().map(drop)?),
            Kind::Ovs(ovs) => stop(ovs.id(), Signal::SIGSTOP),
        }
    }

    /// Open vSwitch polls for ever; it stands still while others are measured.
    pub fn park(&mut self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Ovs(ovs) => stop(ovs.id(), Signal::SIGSTOP),
            _ => Ok(()),
        }
    }

    /// Goes on after [`Device::park`].
    pub fn resume(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Ovs(ovs) => stop(ovs.id(), Signal::SIGCONT),
            _ => Ok(()),
        }
    }

    /// Its counters now.
    pub fn read(&mut self, topology: Topology) -> anyhow::Result<Reading> {
        let now_ns = |begin: Instant| begin.elapsed().as_nanos() as f64;
        match &mut self.kind {
            Kind::Switch(child) => read_switch(child),
            Kind::Port(child) => {
                child.tell("counts")?;
                read_port(&child.answer()?)
            }
            Kind::Testpmd { testpmd, .. } => {
                let text = testpmd.command("show fwd stats all")?;
                let sends_only = topology == Topology::HostToGuest;
                usage::of_testpmd(&text, sends_only, now_ns(self.begin)).context(text)
            }
            Kind::Ovs(ovs) => {
                let text = ovs.pmd_stats()?;
                usage::of_ovs(&text, now_ns(self.begin)).context(text)
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // What stands still cannot end in order.
        let _ = self.resume();
    }
}

fn stop(id: u32, signal: Signal) -> anyhow::Result<()> {
    kill(Pid::from_raw(id as i32), signal).with_context(|| format!("sending {signal} to process {id}"))
}

/// `tautline switch` as a user starts it.
fn switch(system: System, sockets: &[PathBuf], program: &Path, cpu: usize) -> anyhow::Result<LineChild> {
    let mut arguments = vec!["switch".to_owned(), "--json".into(), "--cpus".into(), cpu.to_string()];
    for (name, socket) in ["a", "b"].iter().zip(sockets) {
        arguments.extend(["--port".into(), format!("{name}=vhost-user:{}", socket.display())]);
    }
    if system == System::TautlineWire {
        arguments.extend(["--wire".into(), "a=b".into()]);
    }
    LineChild::start(system.name(), program, &arguments)
}

/// What the switch prints on SIGUSR1.
fn read_switch(child: &mut LineChild) -> anyhow::Result<Reading> {
    child.signal(Signal::SIGUSR1)?;
    let snapshot = child.answer()?;
    let worker = &snapshot["workers"][0];
    let (busy, spinning, asleep) =
        (number(worker, "busy_ns")?, number(worker, "spinning_ns")?, number(worker, "asleep_ns")?);
    Ok(Reading {
        elapsed_ns: busy + spinning + asleep,
        frames: number(worker, "frames")?,
        spent: timed(worker)?,
    })
}

fn read_port(counts: &Value) -> anyhow::Result<Reading> {
    let (elapsed_ns, frames) = (number(counts, "elapsed_ns")?, number(counts, "frames")?);
    Ok(Reading { elapsed_ns, frames, spent: timed(counts)? })
}

fn timed(counts: &Value) -> anyhow::Result<Spent> {
    Ok(Spent::Timed { busy_ns: number(counts, "timed_ns")?, frames: number(counts, "timed_frames")? })
}

fn number(value: &Value, name: &str) -> anyhow::Result<f64> {
    value[name].as_f64().with_context(|| format!("no '{name}' in {value}"))
}
