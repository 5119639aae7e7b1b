//! The guest's end of the rings: testpmd with `net_virtio_user` ports, one packet thread for all of them.
use std::time::Instant;

use anyhow::Context;
use peers::Testpmd;
use peers::testpmd::{Forward, Settings, Vdev};
use peers::usage::Reading;
use virtio::{Features, NetFeatures};

use super::device::Device;
use crate::cell::{RingPath, Topology};
use crate::plan::{ADDRESSES, RunPlan};

/// The number of bursts of 32 frames that are sent first in the topology loop: as many as a ring of 256 entries holds.
const FIRST_BURSTS: u32 = 8;

pub struct Driver {
    testpmd: Testpmd,
    /// How the driver treats frames from guest to guest.
    circulation: Forward,
    ports: u16,
    begin: Instant,
}

impl Driver {
    /// Starts testpmd with a port for every port of the device.
    ///
    /// # Errors
    /// A socket that an earlier process has left cannot be removed, testpmd does not start, or a link does not come
    /// up in time.
    pub fn start(path: RingPath, device: &Device, plan: &RunPlan) -> anyhow::Result<Self> {
        let mut settings = settings(plan, device.sockets.len());
        for (socket, address) in device.sockets.iter().zip(ADDRESSES) {
            let mut vdev = path.driver(Vdev::virtio_user(socket)).argument("mac", address);
            if device.system.is_ovs() {
                vdev = vdev.other_role();
                // A killed driver leaves its socket, and the next driver does not replace it.
                match std::fs::remove_file(socket) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error).with_context(|| format!("removing {}", socket.display()));
                    }
                    _ => {}
                }
            }
            settings = settings.port(vdev);
        }
        let mut testpmd = settings.start().context("starting the driver")?;
        device.wait_for_links()?;
        let ports = device.sockets.len() as u16;
        (0..ports).try_for_each(|port| testpmd.wait_for_link(port))?;
        let circulation = match plan {
            RunPlan { active_flows: Some(_), .. } => Forward::FlowGen,
            RunPlan { answered: true, .. } => Forward::FiveTupleSwap,
            _ => Forward::Io,
        };
        Ok(Driver { testpmd, circulation, ports, begin: Instant::now() })
    }

    /// The names of the code in DPDK's driver that moves the frames, as the driver logs them, and the negotiated
    /// features.
    pub fn code_paths(&self) -> (Vec<String>, String) {
        let mut words = self.testpmd.paths().unwrap_or_default();
        words.iter_mut().for_each(|path| path.truncate(path.find(" path on port").unwrap_or(path.len())));
        words.sort();
        words.dedup();
        let features = self.testpmd.features().ok().flatten();
        (
            words,
            features
                .map_or_else(String::new, |bits| NetFeatures(Features::from_bits_retain(bits)).to_string()),
        )
    }

    pub fn id(&self) -> u32 {
        self.testpmd.id()
    }

    /// Starts sending, receiving or forwarding frames of `frame_bytes` bytes with frame check sequence.
    ///
    /// # Errors
    /// testpmd has ended, or does not answer a command.
    pub fn begin(&mut self, topology: Topology, frame_bytes: u16) -> anyhow::Result<()> {
        let forward = match topology {
            Topology::GuestToHost => Forward::TxOnly,
            Topology::HostToGuest => Forward::RxOnly,
            Topology::Loop => Forward::Io,
            Topology::Vm2vm => self.circulation,
        };
        self.testpmd.set_up(forward, frame_bytes)?;
        match forward {
            Forward::Io | Forward::FiveTupleSwap => self.testpmd.start_with_bursts(FIRST_BURSTS)?,
            _ => self.testpmd.start_forwarding()?,
        }
        Ok(())
    }

    /// Stops forwarding.
    ///
    /// # Errors
    /// testpmd has ended, or does not answer a command.
    pub fn end(&mut self) -> anyhow::Result<()> {
        Ok(self.testpmd.stop_forwarding().map(drop)?)
    }

    /// Frames per second over all ports since the last call, by testpmd's own clock: frames that testpmd received or,
    /// if it only sends, transmitted.
    ///
    /// # Errors
    /// testpmd has ended, or does not answer a command.
    pub fn frames_per_second(&mut self, topology: Topology) -> anyhow::Result<f64> {
        let mut sum = 0;
        for port in 0..self.ports {
            let stats = self.testpmd.stats(port)?;
            sum += if topology == Topology::GuestToHost { stats.tx_pps } else { stats.rx_pps };
        }
        Ok(sum as f64)
    }

    /// Reads the counters of the packet thread.
    ///
    /// # Errors
    /// testpmd has ended, or does not answer a command.
    pub fn read(&mut self, topology: Topology) -> anyhow::Result<Reading> {
        let stats = self.testpmd.forward_stats()?;
        let elapsed_ns = self.begin.elapsed().as_nanos() as f64;
        Ok(Reading::of_testpmd(&stats, topology == Topology::GuestToHost, elapsed_ns))
    }
}

/// What all drivers have in common; each port of two sends to the other.
fn settings(plan: &RunPlan, ports: usize) -> Settings {
    let peers = ADDRESSES.iter().rev().enumerate().take(ports);
    let driver = match plan {
        RunPlan { active_flows: Some(flows), .. } => {
            plan.testpmd_driver().arguments([&format!("--flowgen-flows={flows}")])
        }
        RunPlan { answered: true, .. } => {
            plan.testpmd_driver().arguments(["--port-topology=loop", "--tx-ip=10.0.0.1,10.0.0.2"])
        }
        RunPlan { flows: Some(_), .. } => plan.testpmd_driver().arguments(["--txonly-multi-flow"]),
        _ => plan.testpmd_driver(),
    };
    peers.fold(driver, |settings, (port, peer)| settings.arguments([&format!("--eth-peer={port},{peer}")]))
}
