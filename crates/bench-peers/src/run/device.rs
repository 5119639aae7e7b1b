//! The systems at the host's end of the rings, each as processes of its own.
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use peers::testpmd::{Forward, Vdev};
use peers::usage::Reading;
use peers::{Answering, OvsDpdk, Testpmd};
use rustix::process::{Pid, Signal, kill_process};

use crate::cell::{System, Topology, name};
use crate::plan::{PATIENCE, RunPlan};

/// A system that has been started.
pub struct Device {
    pub system: System,
    pub sockets: Vec<PathBuf>,
    kind: Kind,
    begin: Instant,
}

enum Kind {
    Switch(Answering),
    Port(Answering),
    Testpmd(Box<Testpmd>),
    Ovs(Box<OvsDpdk>),
}

impl Device {
    /// Starts a system with the sockets of a topology, and waits until it listens on them. Open vSwitch connects to
    /// the sockets by itself.
    ///
    /// # Errors
    /// The program is missing or ends, a setting is refused (Open vSwitch's ports and flows), or the system does not
    /// listen on its sockets in time. The kernel bridge has no rings and is always refused.
    pub fn start(
        system: System,
        topology: Topology,
        folder: &Path,
        tautline: &Path,
        plan: &RunPlan,
    ) -> anyhow::Result<Self> {
        let ports = topology.ports();
        let sockets: Vec<PathBuf> =
            (0..ports).map(|port| folder.join(format!("{}-{ports}-{port}", name(&system)))).collect();
        let kind = match system {
            System::TautlineWire | System::TautlineLearning | System::TautlineFlows => {
                Kind::Switch(super::tautline::switch(system, &sockets, tautline, plan)?)
            }
            System::TautlinePort => {
                let own = std::env::current_exe().context("finding this program")?;
                let arguments =
                    ["endpoint".to_owned(), sockets[0].display().to_string(), plan.switch_cpu.to_string()];
                Kind::Port(Answering::start(&own, &arguments)?)
            }
            System::Testpmd => {
                let settings = plan.testpmd_device();
                let settings = sockets.iter().fold(settings, |s, socket| s.port(Vdev::vhost(socket)));
                Kind::Testpmd(Box::new(settings.start()?))
            }
            System::OvsLearning | System::OvsPortFlow | System::OvsFlows => {
                // Its packet thread takes the last CPU, which is the switch's.
                let ovs = plan.ovs().start()?;
                for (name, socket) in ["a", "b"].iter().zip(&sockets) {
                    ovs.add_port(name, socket)?;
                }
                if system == System::OvsPortFlow {
                    ovs.connect("a", "b")?;
                }
                if let (System::OvsFlows, Some(flows)) = (system, &plan.flows) {
                    ovs.replace_flows(flows)?;
                }
                Kind::Ovs(Box::new(ovs))
            }
            System::KernelBridge => bail!("it has no rings"),
        };
        let device = Device { system, sockets, kind, begin: Instant::now() };
        if !system.is_ovs() {
            for socket in &device.sockets {
                peers::socket::wait_for_listener(socket, PATIENCE)?;
            }
        }
        Ok(device)
    }

    /// The id of the system's process.
    pub fn id(&self) -> u32 {
        match &self.kind {
            Kind::Switch(child) | Kind::Port(child) => child.id(),
            Kind::Testpmd(testpmd) => testpmd.id(),
            Kind::Ovs(ovs) => ovs.id(),
        }
    }

    /// Waits until the system has noticed that the drivers are connected.
    ///
    /// # Errors
    /// Open vSwitch does not report a port's link in time, or does not answer.
    pub fn wait_for_links(&self) -> anyhow::Result<()> {
        if let Kind::Ovs(ovs) = &self.kind {
            for port in ["a", "b"] {
                ovs.wait_for_link(port)?;
            }
        }
        Ok(())
    }

    /// Starts moving frames; if the system generates them, they have `frame_bytes` bytes with frame check sequence.
    ///
    /// # Errors
    /// The process has ended, does not answer a command, or cannot be sent SIGCONT.
    pub fn begin(&mut self, topology: Topology, frame_bytes: u16) -> anyhow::Result<()> {
        match &mut self.kind {
            Kind::Switch(_) => Ok(()),
            Kind::Port(child) => {
                let role = match topology {
                    Topology::GuestToHost => "from-guest".to_owned(),
                    Topology::HostToGuest => format!("to-guest {frame_bytes}"),
                    Topology::Loop | Topology::Vm2vm => "reflect".to_owned(),
                };
                Ok(child.ask(&role).map(drop)?)
            }
            Kind::Testpmd(testpmd) => {
                let forward = match topology {
                    Topology::GuestToHost => Forward::RxOnly,
                    Topology::HostToGuest => Forward::TxOnly,
                    Topology::Loop => Forward::Mac,
                    Topology::Vm2vm => Forward::Io,
                };
                testpmd.set_up(forward, frame_bytes)?;
                Ok(testpmd.start_forwarding()?)
            }
            Kind::Ovs(_) => self.resume(),
        }
    }

    /// Stops moving frames, so that the system uses no CPU. Open vSwitch polls for ever and is therefore stopped by
    /// SIGSTOP while other systems are measured.
    ///
    /// # Errors
    /// The process has ended, does not answer a command, or cannot be sent SIGSTOP.
    pub fn end(&mut self) -> anyhow::Result<()> {
        match &mut self.kind {
            // The switch sleeps when no frames come.
            Kind::Switch(_) => Ok(()),
            Kind::Port(child) => Ok(child.ask("pause").map(drop)?),
            Kind::Testpmd(testpmd) => Ok(testpmd.stop_forwarding().map(drop)?),
            Kind::Ovs(ovs) => signal(ovs.id(), Signal::STOP),
        }
    }

    /// Lets Open vSwitch run again after [`Device::end`]. For other systems the function does nothing.
    ///
    /// # Errors
    /// The process of Open vSwitch has ended and cannot be sent SIGCONT.
    pub fn resume(&self) -> anyhow::Result<()> {
        match &self.kind {
            Kind::Ovs(ovs) => signal(ovs.id(), Signal::CONT),
            _ => Ok(()),
        }
    }

    /// Reads the system's counters.
    ///
    /// # Errors
    /// The process has ended or does not answer, or its answer lacks a counter.
    pub fn read(&mut self, topology: Topology) -> anyhow::Result<Reading> {
        let elapsed_ns = self.begin.elapsed().as_nanos() as f64;
        match &mut self.kind {
            Kind::Switch(child) => {
                signal(child.id(), Signal::USR1)?;
                let worker = child.answer()?["workers"][0].take();
                let times = ["busy_ns", "spinning_ns", "asleep_ns"].map(|name| worker[name].as_f64());
                let elapsed_ns = times.into_iter().sum::<Option<f64>>().context("no times of the worker")?;
                Ok(Reading::of_ours(&worker, elapsed_ns)?)
            }
            Kind::Port(child) => Ok(Reading::of_ours(&child.ask("counts")?, elapsed_ns)?),
            Kind::Testpmd(testpmd) => {
                let sends_only = topology == Topology::HostToGuest;
                Ok(Reading::of_testpmd(&testpmd.forward_stats()?, sends_only, elapsed_ns))
            }
            Kind::Ovs(ovs) => Ok(Reading::of_ovs(&ovs.pmd_stats()?, elapsed_ns)),
        }
    }
}

fn signal(id: u32, signal: Signal) -> anyhow::Result<()> {
    let process = Pid::from_raw(id.cast_signed()).context("no process has number 0")?;
    kill_process(process, signal).with_context(|| format!("sending {signal:?} to process {id}"))
}
