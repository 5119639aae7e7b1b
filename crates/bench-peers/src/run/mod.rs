//! The run: for each ring path the systems are started, and take turns in every cell.
mod contestant;
mod device;
mod driver;
mod generator_cells;
mod rounds;
mod tautline;
mod zero_loss;

use std::path::Path;

use linux::interrupt;
use linux::progress::Progress;

use crate::cell::{DriverKind, RingPath, System, Topology, name};
use crate::machine::Machine;
use crate::plan::{Pace, PlannedCell, RunPlan};
use crate::results::{CodePath, Results};
use contestant::{Contestant, Pair};
use device::Device;
use driver::Driver;

struct Bench<'a> {
    /// Open vSwitch instances, which are started only once: their start takes long, and they connect to the next
    /// driver by themselves.
    kept: Vec<Device>,
    /// The folder of Open vSwitch's sockets.
    folder: tempfile::TempDir,
    tautline: &'a Path,
    plan: RunPlan,
    machine: &'a mut Machine,
    results: &'a mut Results,
    file: &'a Path,
    progress: &'a Progress,
    pace: Pace,
    /// The number of the start that is being measured.
    start: u32,
}

/// Measures the bridge, and all ring paths once for each start. A measurement that fails is left out of the results
/// with its reason, and the others continue.
///
/// # Errors
/// The run was interrupted, a temporary folder cannot be made, or the results file cannot be written.
pub fn run(
    tautline: &Path,
    machine: &mut Machine,
    results: &mut Results,
    file: &Path,
    progress: &Progress,
) -> anyhow::Result<()> {
    let (plan, folder) = (results.plan.clone(), tempfile::tempdir()?);
    let (pace, kept, start) = (Pace::of(&plan), Vec::new(), 0);
    Bench { kept, folder, tautline, plan, machine, results, file, progress, pace, start }.run()
}

impl Bench<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        // The bridge comes first: it takes little time, and later measurements cannot leave it without time.
        self.kernel_bridge()?;
        self.save()?;
        for start in 0..self.plan.starts() {
            self.start = start;
            for path in self.plan.paths.clone() {
                match self.pace.is_late() {
                    true => self.too_late(&format!("{}, start {}", name(&path), start + 1)),
                    false => self.path(path)?,
                }
                self.save()?;
            }
        }
        Ok(())
    }

    fn save(&mut self) -> anyhow::Result<()> {
        self.results.elapsed_s = self.pace.elapsed().as_secs_f64();
        Ok(measure::save_json(&self.results, self.file)?)
    }

    fn doing(&self, what: &str) {
        self.progress.doing(format!("{:>3} %  {what}", (self.pace.part() * 100.0) as u64));
    }

    /// Notes that something is not measured; returns the error if the user interrupted.
    fn leave_out(&mut self, what: &str, why: &anyhow::Error) -> anyhow::Result<()> {
        interrupt::check()?;
        // Programs answer at length.
        let why = format!("{why:#}");
        let why: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
        let line = format!("{what}: {}", why.join(" / ").chars().take(400).collect::<String>());
        self.progress.note(&line);
        self.results.left_out.push(line);
        Ok(())
    }

    fn too_late(&mut self, what: &str) {
        self.results.left_out.push(format!("{what}: for lack of time"));
    }

    fn path(&mut self, path: RingPath) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let planned = self.plan.cells(self.start, path, DriverKind::Dpdk);
        let mut pairs = self.start_all(path, folder.path(), &planned)?;
        for planned in planned {
            let fits = |pair: &Pair| planned.has(pair.system(), pair.device.sockets.len());
            let turn = pairs.iter_mut().filter(|pair| fits(pair));
            let mut turn: Vec<_> = turn.map(|pair| pair as &mut dyn Contestant).collect();
            let broken = self.rounds(&planned, &mut turn)?;
            pairs.retain(|pair| !(fits(pair) && broken.contains(&pair.system())));
        }
        // The sockets take one driver at a time.
        let (kept, mut rest): (Vec<Device>, Vec<Device>) =
            pairs.into_iter().map(|pair| pair.device).partition(|device| device.system.is_ovs());
        self.kept.extend(kept);
        for planned in self.plan.cells(self.start, path, DriverKind::Tautline) {
            self.generator_cell(path, &planned, &mut rest)?;
        }
        Ok(())
    }

    /// One device with one port serves all topologies that need no more.
    fn start_all(
        &mut self,
        path: RingPath,
        folder: &Path,
        planned: &[PlannedCell],
    ) -> anyhow::Result<Vec<Pair>> {
        let mut wanted: Vec<(System, Topology)> = Vec::new();
        for PlannedCell { cell, systems, .. } in planned {
            for &system in systems {
                let serves = |(s, t): &(System, Topology)| *s == system && t.ports() == cell.topology.ports();
                if !wanted.iter().any(serves) {
                    wanted.push((system, cell.topology));
                }
            }
        }
        let mut pairs = Vec::new();
        for (system, topology) in wanted {
            interrupt::check()?;
            let what = format!("{}, {}", name(&system), name(&path));
            self.doing(&format!("starting {what}"));
            match self.pair(path, folder, system, topology) {
                Ok(pair) => {
                    self.note_code_path(path, &pair);
                    pairs.push(pair);
                }
                Err(error) => self.leave_out(&what, &error)?,
            }
        }
        Ok(pairs)
    }

    /// Systems with which DPDK's driver took the same stand together.
    fn note_code_path(&mut self, path: RingPath, pair: &Pair) {
        let (system, (words, features)) = (pair.system(), pair.driver.code_paths());
        let mut all = self.results.code_paths.iter_mut();
        match all.find(|taken| taken.path == path && taken.words == words && taken.features == features) {
            Some(taken) if taken.systems.contains(&system) => {}
            Some(taken) => taken.systems.push(system),
            None => self.results.code_paths.push(CodePath { path, systems: vec![system], words, features }),
        }
    }

    fn pair(
        &mut self,
        path: RingPath,
        folder: &Path,
        system: System,
        topology: Topology,
    ) -> anyhow::Result<Pair> {
        let mut device = match self.kept.iter().position(|device| device.system == system) {
            Some(at) => self.kept.remove(at),
            None => {
                let folder = if system.is_ovs() { self.folder.path() } else { folder };
                Device::start(system, topology, folder, self.tautline, &self.plan)?
            }
        };
        device.resume()?;
        let driver = Driver::start(path, &device, &self.plan)?;
        if system.is_ovs() {
            device.end()?;
        }
        Ok(Pair { device, driver })
    }
}
