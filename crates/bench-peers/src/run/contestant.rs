//! The contestants that take turns in a cell: each is a system with a driver at its other end.
use std::time::Duration;

use linux::interrupt;
use measure::window::Window;

use super::device::Device;
use super::driver::Driver;
use crate::cell::{Cell, System};
use crate::plan::SETTLE;
use crate::results::Measured;

pub trait Contestant {
    fn system(&self) -> System;

    /// Called before the first trial in a cell, so that links come up and caches become warm.
    ///
    /// # Errors
    /// The causes of [`Contestant::trial`].
    fn prepare(&mut self, cell: &Cell) -> anyhow::Result<()> {
        self.trial(cell, SETTLE).map(drop)
    }

    /// Sends traffic for a short time, then measures over a window of length `time`. The contestant is stopped before
    /// and after.
    ///
    /// # Errors
    /// The run was interrupted; or the system or the driver has ended, does not answer, or its answer lacks a
    /// counter. The contestant may then be in any state.
    fn trial(&mut self, cell: &Cell, time: Duration) -> anyhow::Result<Measured>;
}

/// A system with DPDK's driver.
pub struct Pair {
    pub device: Device,
    pub driver: Driver,
}

impl Contestant for Pair {
    fn system(&self) -> System {
        self.device.system
    }

    fn trial(&mut self, cell: &Cell, time: Duration) -> anyhow::Result<Measured> {
        let Pair { device, driver } = self;
        let topology = cell.topology;
        device.begin(topology, cell.frame_bytes)?;
        driver.begin(topology, cell.frame_bytes)?;
        interrupt::pause(SETTLE)?;
        let before = [device.read(topology)?, driver.read(topology)?];
        let window = Window::start([device.id(), driver.id()]);
        driver.frames_per_second(topology)?;
        interrupt::pause(time)?;
        let frames_per_second = driver.frames_per_second(topology)?;
        let (window, noise) = window.finish();
        let after = [device.read(topology)?, driver.read(topology)?];
        driver.end()?;
        device.end()?;
        let mhz = after.iter().find_map(|reading| reading.mhz());
        let [device, driver] = [0, 1].map(|side: usize| before[side].until(&after[side], mhz));
        Ok(Measured { frames_per_second, window_ns: window.as_nanos() as u64, noise, device, driver })
    }
}
