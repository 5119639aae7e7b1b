//! What two TAPs in the kernel's own bridge pass. There are no ring paths, so it is measured once.
use std::path::Path;
use std::time::Duration;

use peers::Bridge;
use peers::testpmd::VHOST_NET;

use crate::bench::{Bench, Measured, SETTLE};
use crate::cell::{Cell, DriverKind, Link, System, Tap, Topology};
use crate::cpus::Pinned;
use crate::driver::Driver;
use crate::generator::Generator;
use crate::order::SEARCHING;
use crate::usage::Usage;
use crate::window::Window;

const SYSTEM: System = System::KernelBridge;

impl Bench<'_> {
    /// The kernel's bridge; what fails is left out with its reason.
    pub fn kernel_bridge(&mut self) -> anyhow::Result<()> {
        if self.order.bridge_sizes.is_empty() {
            return Ok(());
        }
        self.progress.doing("starting kernel bridge");
        let bridge = match Bridge::new() {
            Ok(bridge) => bridge,
            Err(error) => return self.leave_out(SYSTEM.name(), &error.into()),
        };
        self.timed("DPDK driver, kernel bridge".to_owned(), |bench| bench.bridge_dpdk(&bridge))?;
        self.timed("own generator, kernel bridge".to_owned(), |bench| bench.bridge_generator(&bridge))
    }

    fn bridge_dpdk(&mut self, bridge: &Bridge) -> anyhow::Result<()> {
        let Some((tap, mut driver)) = self.bridge_driver(bridge)? else { return Ok(()) };
        for &frame_bytes in &self.order.bridge_sizes {
            let cell = cell(DriverKind::Dpdk, tap, frame_bytes);
            let trial = self.order.trial;
            let warm = self.bridge_trial(&mut driver, frame_bytes, Duration::from_millis(30));
            let done = warm.and_then(|_| {
                self.bridge_rounds(&cell, |bench| bench.bridge_trial(&mut driver, frame_bytes, trial))
            });
            if let Err(error) = done {
                self.leave_out(&format!("{}, {cell}", SYSTEM.name()), &error)?;
            }
        }
        Ok(())
    }

    /// DPDK's driver as near to the other systems' as this machine allows: the one of rings where the kernel
    /// serves them, else the one of TAPs.
    fn bridge_driver(&mut self, bridge: &Bridge) -> anyhow::Result<Option<(Tap, Driver)>> {
        let what = |tap| format!("{}, {}", SYSTEM.name(), cell(DriverKind::Dpdk, tap, 64).link_name());
        for tap in [Tap::VhostNet, Tap::SystemCalls] {
            if tap == Tap::VhostNet && !Path::new(VHOST_NET).exists() {
                let why = format!(
                    "there is no {VHOST_NET} here (as root: modprobe vhost_net); DPDK's net_tap stands in for it"
                );
                self.results.left_out.push(format!("{}: {why}", what(tap)));
                continue;
            }
            match Driver::over_bridge(bridge, tap, &self.order.setup, self.place) {
                Ok(driver) => return Ok(Some((tap, driver))),
                Err(error) => self.leave_out(&what(tap), &error)?,
            }
        }
        Ok(None)
    }

    fn bridge_trial(
        &self,
        driver: &mut Driver,
        frame_bytes: u16,
        time: Duration,
    ) -> anyhow::Result<Measured> {
        driver.begin(Topology::Vm2vm, frame_bytes)?;
        self.place.interrupt.pause(SETTLE)?;
        // Where the kernel has threads for it, they and their softirqs are on the switch's CPU.
        let processes = driver.processes();
        let cpus = match driver.has_helpers() {
            true => vec![self.place.driver_cpu, self.place.switch_cpu],
            false => vec![self.place.driver_cpu],
        };
        let window = Window::start(processes.clone()).with_softirqs_of(processes, cpus);
        driver.frames_per_second(Topology::Vm2vm)?;
        self.place.interrupt.pause(time)?;
        let frames_per_second = driver.frames_per_second(Topology::Vm2vm)?;
        let (window, noise) = window.finish();
        driver.end()?;
        Ok(measured(frames_per_second, window, noise))
    }

    fn bridge_generator(&mut self, bridge: &Bridge) -> anyhow::Result<()> {
        let sizes: Vec<u16> = self.order.bridge_sizes.clone();
        let sizes = sizes.into_iter().filter(|size| self.order.generator_sizes.contains(size));
        let mut generator: Option<Generator> = None;
        for frame_bytes in sizes {
            let cell = cell(DriverKind::Tautline, Tap::SystemCalls, frame_bytes);
            let done = self.bridge_generator_cell(&cell, bridge, &mut generator);
            if let Err(error) = done {
                self.leave_out(&format!("{}, {cell}, own generator", SYSTEM.name()), &error)?;
                generator = None;
            }
        }
        Ok(())
    }

    /// Maximum, then the search.
    fn bridge_generator_cell(
        &mut self,
        cell: &Cell,
        bridge: &Bridge,
        generator: &mut Option<Generator>,
    ) -> anyhow::Result<()> {
        let generator = match generator {
            Some(generator) => generator,
            None => generator.insert(Generator::over_bridge(bridge)?),
        };
        let _pinned = Pinned::to(self.place.driver_cpu)?;
        generator.set_size(cell.topology, cell.frame_bytes, || self.place.interrupt.check())?;
        self.bridge_rounds(cell, |bench| {
            generator.maximum(SETTLE)?;
            let window =
                Window::start([]).with_softirqs_of(vec![std::process::id()], vec![bench.place.driver_cpu]);
            let passed = generator.maximum(bench.order.trial)?;
            let (window, noise) = window.finish();
            Ok(measured(passed.frames_per_second, window, noise))
        })?;
        if self.is_late() {
            self.results.left_out.push(format!("{}, {cell}: zero loss for lack of time", SYSTEM.name()));
            return Ok(());
        }
        self.progress.doing(&format!("{cell}: {}, zero loss", SYSTEM.name()));
        self.done += SEARCHING;
        let found = self.search(cell, SYSTEM, generator)?;
        self.results.zero_loss.push(found);
        Ok(())
    }

    /// All rounds of one cell: there is nobody to take turns with.
    fn bridge_rounds(
        &mut self,
        cell: &Cell,
        mut trial: impl FnMut(&mut Self) -> anyhow::Result<Measured>,
    ) -> anyhow::Result<()> {
        for round in 0..self.order.rounds {
            if self.is_late() {
                let rounds = self.order.rounds;
                let line = format!("{}, {cell}: {round} of {rounds} rounds for lack of time", SYSTEM.name());
                self.results.left_out.push(line);
                break;
            }
            let what = format!("{cell}: {}", SYSTEM.name());
            match cell.driver {
                DriverKind::Dpdk => self.progress.step(&what),
                DriverKind::Tautline => self.progress.doing(&what),
            }
            self.until_quiet(cell, SYSTEM, round, &mut trial)?;
            self.done += 1;
        }
        Ok(())
    }
}

fn cell(driver: DriverKind, tap: Tap, frame_bytes: u16) -> Cell {
    Cell { driver, topology: Topology::Vm2vm, link: Link::Tap(tap), frame_bytes }
}

/// Driver and bridge share a core, so nothing is known of what each of them used.
fn measured(frames_per_second: f64, window: Duration, noise: measure::Noise) -> Measured {
    Measured { frames_per_second, window, noise, device: Usage::default(), driver: Usage::default() }
}
