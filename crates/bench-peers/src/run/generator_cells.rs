//! Measures the systems with this project's generator as the driver: every frame is stamped, and verified to its last
//! byte when it comes back. The maximum is measured in turns, then zero loss is searched.
use std::time::Duration;

use anyhow::{Context, ensure};
use linux::cpus::Bound;
use measure::window::Window;
use peers::usage::Usage;
use traffic::frames::{Access, Fields, FrameSize, SizeMix};
use traffic::path::{Path, Profile, Topology};
use traffic::rig::TestRig;
use traffic::search::Load;

use super::Bench;
use super::contestant::Contestant;
use super::device::Device;
use crate::cell::{Cell, RingPath, System, name};
use crate::plan::{ADDRESSES, MAXIMUM_RING, PATIENCE, PlannedCell, RunPlan, SEARCH_RING, SEARCHING, SETTLE};
use crate::results::Measured;

/// How long frames that are late are waited for.
const RESIDUAL: Duration = Duration::from_millis(20);

/// A system with our generator at its ports.
struct Generated<'a> {
    device: &'a mut Device,
    path: Path,
    cpu: usize,
    /// The time in ns of a round of the generator in which no frame is sent or received.
    idle_poll_ns: f64,
}

impl<'a> Generated<'a> {
    /// Connects to all ports of the device.
    fn connect(device: &'a mut Device, path: RingPath, plan: &RunPlan) -> anyhow::Result<Self> {
        let mut rig = TestRig::new();
        for socket in &device.sockets {
            let spec: port::spec::PortSpec = path.port(socket, MAXIMUM_RING, plan.pages()).parse()?;
            rig.attach(&name(&device.system), spec.build()?)?;
        }
        rig.wait_until_up(PATIENCE)?;
        let fields = Fields {
            source: ADDRESSES[0].parse().context("an address")?,
            destination: ADDRESSES[1].parse().context("an address")?,
            ..Fields::default()
        };
        let both = device.sockets.len() == 2;
        let profile = Profile { fields, flows: 8, access: Access::Payload, bidirectional: both };
        let topology = if both { Topology::Through } else { Topology::Loop };
        let path = Path::new(rig, topology, profile);
        Ok(Generated { device, path, cpu: plan.driver_cpu, idle_poll_ns: f64::INFINITY })
    }
}

fn mix(cell: &Cell) -> anyhow::Result<SizeMix> {
    Ok(SizeMix::fixed(FrameSize::with_fcs(cell.frame_bytes)?))
}

impl Contestant for Generated<'_> {
    fn system(&self) -> System {
        self.device.system
    }

    fn prepare(&mut self, cell: &Cell) -> anyhow::Result<()> {
        self.device.begin(cell.topology, cell.frame_bytes)?;
        let _bound = Bound::to(&[self.cpu])?;
        let mut loaded = self.path.load(&mix(cell)?, RESIDUAL)?;
        ensure!(loaded.warm_up(PATIENCE)?, "no frame came through within {} s", PATIENCE.as_secs());
        // One frame, and no more for the rest of the time.
        let (_, idle) = loaded.trial(Load::new(2).context("a load")?, Duration::from_millis(5))?;
        self.idle_poll_ns = idle.sending_ns as f64 / idle.idle_polls.max(1) as f64;
        self.device.end()
    }

    fn trial(&mut self, cell: &Cell, time: Duration) -> anyhow::Result<Measured> {
        let Generated { device, path, .. } = self;
        device.begin(cell.topology, cell.frame_bytes)?;
        let _bound = Bound::to(&[self.cpu])?;
        let mut loaded = path.load(&mix(cell)?, RESIDUAL)?;
        loaded.maximum(SETTLE)?;
        let before = device.read(cell.topology)?;
        let window = Window::start([device.id()]);
        let outcome = loaded.maximum(time)?;
        let (window, noise) = window.finish();
        let after = device.read(cell.topology)?;
        device.end()?;
        let altered: u64 = outcome.lanes.iter().map(|lane| lane.tally.altered).sum();
        ensure!(altered == 0, "{altered} frames were altered on their way");
        let received: u64 = outcome.lanes.iter().map(|lane| lane.tally.distinct).sum();
        let idle = outcome.idle_polls as f64 * self.idle_poll_ns / outcome.sending_ns as f64;
        Ok(Measured {
            frames_per_second: received as f64 * 1e9 / outcome.sending_ns as f64,
            window_ns: window.as_nanos() as u64,
            noise,
            device: before.until(&after, after.mhz()),
            driver: Usage { idle: Some(idle).filter(|idle| *idle <= 1.0), busy_ns_per_frame: None },
        })
    }
}

impl Bench<'_> {
    pub(super) fn generator_cell(
        &mut self,
        path: RingPath,
        planned: &PlannedCell,
        devices: &mut [Device],
    ) -> anyhow::Result<()> {
        let fits = |device: &&mut Device| planned.has(device.system, device.sockets.len());
        let mut generated = Vec::new();
        for device in devices.iter_mut().filter(fits) {
            let what = format!("{}, {}", name(&device.system), planned.cell);
            match Generated::connect(device, path, &self.plan) {
                Ok(contestant) => generated.push(contestant),
                Err(error) => self.leave_out(&what, &error)?,
            }
        }
        let mut turn: Vec<_> = generated.iter_mut().map(|one| one as &mut dyn Contestant).collect();
        self.rounds(planned, &mut turn)?;
        drop(generated);
        let searched = |device: &&mut Device| planned.searched.contains(&device.system);
        for device in devices.iter_mut().filter(fits).filter(searched) {
            let sockets = device.sockets.iter();
            let ports = sockets.map(|socket| path.port(socket, SEARCH_RING, self.plan.pages()));
            let ports = ports.collect::<Vec<_>>();
            self.zero_loss(&planned.cell, device.system, |bench| {
                device.begin(planned.cell.topology, planned.cell.frame_bytes)?;
                let found = bench.throughput(&planned.cell, &ports, None);
                device.end()?;
                found
            })?;
            self.pace.done += SEARCHING;
        }
        Ok(())
    }
}
