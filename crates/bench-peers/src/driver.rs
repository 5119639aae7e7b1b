//! The guest's end of the rings: testpmd with `net_virtio_user` ports, one packet thread for all of them.
use std::time::Instant;

use anyhow::Context;
use peers::netns::TapQueues;
use peers::testpmd::{Forward, Settings, Vdev};
use peers::{Bridge, Pages, Testpmd};
use traffic::frames::FrameSize;

use crate::cell::{RingPath, Tap, Topology};
use crate::device::{ADDRESSES, Device, Listener};
use crate::usage::{self, Reading};

/// Bursts of 32 that are sent first where frames go round: as many as a ring of 256 takes.
const FIRST_BURSTS: u32 = 8;

pub struct Driver {
    testpmd: Testpmd,
    ports: u16,
    forward: Option<Forward>,
    frame_bytes: u16,
    begin: Instant,
    /// Threads of vhost-net that serve it.
    helpers: Vec<u32>,
}

impl Driver {
    /// A driver for every port of the device.
    pub fn start(path: RingPath, device: &Device, cpu: usize, pages: Pages) -> anyhow::Result<Self> {
        let mut settings = settings(cpu, device.sockets.len()).pages(pages);
        for (socket, address) in device.sockets.iter().zip(ADDRESSES) {
            let mut vdev = path.driver(Vdev::virtio_user(socket)).argument("mac", address);
            if device.listener() == Listener::Driver {
                vdev = vdev.other_role();
                // One that was killed leaves its socket, and the next does not replace it.
                if let Err(error) = std::fs::remove_file(socket)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    return Err(error).with_context(|| format!("removing {}", socket.display()));
                }
            }
            settings = settings.port(vdev);
        }
        let testpmd = settings.start().with_context(|| {
            format!("starting the driver of {} on the path '{}'", device.system.name(), path.name())
        })?;
        device.wait_for_links()?;
        Driver::of(testpmd, device.sockets.len() as u16)
    }

    /// A driver for two TAPs that are made for it in the bridge. Where the kernel has threads that serve it,
    /// these have `switch_cpu`.
    pub fn over_bridge(bridge: &Bridge, tap: Tap, cpu: usize, switch_cpu: usize) -> anyhow::Result<Self> {
        let mut settings = settings(cpu, ADDRESSES.len());
        let names = match tap {
            Tap::SystemCalls => ["net-tap0", "net-tap1"],
            Tap::VhostNet => ["vhost-net0", "vhost-net1"],
        };
        for (name, address) in names.into_iter().zip(ADDRESSES) {
            let (queues, vdev) = match tap {
                Tap::SystemCalls => (TapQueues::Many, Vdev::tap(name)),
                Tap::VhostNet => (TapQueues::One, Vdev::vhost_net(name)),
            };
            bridge.tap(name, queues)?;
            settings = settings.port(vdev.argument("mac", address));
        }
        let testpmd = settings.start_in(bridge.namespace()).context("starting the driver of the TAPs")?;
        for (name, address) in names.into_iter().zip(["02:00:00:00:bb:01", "02:00:00:00:bb:02"]) {
            bridge.set_address(name, address)?;
        }
        let mut driver = Driver::of(testpmd, names.len() as u16)?;
        if tap == Tap::VhostNet {
            driver.helpers = vhost_threads(driver.id());
            for thread in &driver.helpers {
                crate::cpus::pin(*thread, switch_cpu)?;
            }
        }
        Ok(driver)
    }

    fn of(testpmd: Testpmd, ports: u16) -> anyhow::Result<Self> {
        let mut driver = Driver {
            testpmd,
            ports,
            forward: None,
            frame_bytes: 0,
            begin: Instant::now(),
            helpers: Vec::new(),
        };
        for port in 0..ports {
            driver.testpmd.wait_for_link(port)?;
        }
        Ok(driver)
    }

    /// Which code of DPDK's driver moves the frames, as it words it.
    pub fn paths(&self) -> Vec<String> {
        self.testpmd.paths().unwrap_or_default()
    }

    pub fn id(&self) -> u32 {
        self.testpmd.id()
    }

    /// The process, and what works for it outside of it.
    pub fn processes(&self) -> Vec<u32> {
        let id = self.id();
        let outside = |thread: &u32| !std::path::Path::new(&format!("/proc/{id}/task/{thread}")).exists();
        std::iter::once(id).chain(self.helpers.iter().copied().filter(outside)).collect()
    }

    /// Whether anything works for it on the switch's CPU.
    pub fn has_helpers(&self) -> bool {
        !self.helpers.is_empty()
    }

    pub fn begin(&mut self, topology: Topology, frame_bytes: u16) -> anyhow::Result<()> {
        let forward = match topology {
            Topology::GuestToHost => Forward::TxOnly,
            Topology::HostToGuest => Forward::RxOnly,
            Topology::Loop | Topology::Vm2vm => Forward::Io,
        };
        if self.forward != Some(forward) {
            self.testpmd.set_forward(forward)?;
            self.forward = Some(forward);
        }
        if self.frame_bytes != frame_bytes {
            self.testpmd.command(&format!("set txpkts {}", FrameSize::with_fcs(frame_bytes)?.in_buffer()))?;
            self.frame_bytes = frame_bytes;
        }
        match forward {
            Forward::Io => self.testpmd.start_with_bursts(FIRST_BURSTS)?,
            _ => self.testpmd.start_forwarding()?,
        }
        Ok(())
    }

    pub fn end(&mut self) -> anyhow::Result<()> {
        Ok(self.testpmd.stop_forwarding().map(drop)?)
    }

    /// Frames per second over all ports since it was last asked, by testpmd's own clock: what it received,
    /// or got rid of where it only sends.
    pub fn frames_per_second(&mut self, topology: Topology) -> anyhow::Result<f64> {
        let name = if topology == Topology::GuestToHost { "Tx-pps:" } else { "Rx-pps:" };
        let mut sum = 0.0;
        for port in 0..self.ports {
            let text = self.testpmd.command(&format!("show port stats {port}"))?;
            sum += rate(&text, name).with_context(|| format!("no {name} in {text}"))?;
        }
        Ok(sum)
    }

    pub fn read(&mut self, topology: Topology) -> anyhow::Result<Reading> {
        let text = self.testpmd.command("show fwd stats all")?;
        let elapsed_ns = self.begin.elapsed().as_nanos() as f64;
        usage::of_testpmd(&text, topology == Topology::GuestToHost, elapsed_ns).context(text)
    }
}

/// What all drivers have in common; each port of two sends to the other.
fn settings(cpu: usize, ports: usize) -> Settings {
    let settings = Settings::default().forwarding_cpu(cpu).simd_bits(512).arguments(["--record-core-cycles"]);
    let peers = ADDRESSES.iter().rev().enumerate().take(ports);
    peers.fold(settings, |settings, (port, peer)| settings.arguments([&format!("--eth-peer={port},{peer}")]))
}

/// The threads of vhost-net for a process: of the kernel until Linux 6.3, of the process itself since.
fn vhost_threads(id: u32) -> Vec<u32> {
    let name = format!("vhost-{id}");
    let numbers = |folder: String| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
    };
    let is_one = |thread: &u32| {
        std::fs::read_to_string(format!("/proc/{thread}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    numbers("/proc".to_owned()).chain(numbers(format!("/proc/{id}/task"))).filter(is_one).collect()
}

fn rate(text: &str, name: &str) -> Option<f64> {
    text.split(name).nth(1)?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_are_found_by_their_names() {
        let own = std::process::id();
        let (ready, named) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let named_so = std::thread::Builder::new().name(format!("vhost-{own}"));
        let thread = named_so.spawn(move || {
            ready.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            let _ = ended.recv();
        });
        let id = named.recv().unwrap();
        // Threads of other tests come and go, and the kernel's list then leaves some out.
        let look = |wanted: &[u32]| (0..1000).any(|_| super::vhost_threads(own) == wanted);
        assert!(look(&[id]));
        drop(end);
        thread.unwrap().join().unwrap();
        assert!(look(&[]));
    }

    #[test]
    fn rates_are_read_by_their_names() {
        let text = "  Throughput (since last show)\n  Rx-pps:     12345          Rx-bps:   1\n  Tx-pps:  678   Tx-bps: 2\n";
        assert_eq!(super::rate(text, "Rx-pps:"), Some(12345.0));
        assert_eq!(super::rate(text, "Tx-pps:"), Some(678.0));
        assert_eq!(super::rate("Invalid port", "Rx-pps:"), None);
    }
}
