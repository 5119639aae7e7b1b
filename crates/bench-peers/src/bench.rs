//! The run: for each ring path the systems are started once, and take turns in every cell.
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use measure::Verdict;

use crate::cell::{Cell, DriverKind, Link, RingPath, System, Topology};
use crate::device::Device;
use crate::driver::Driver;
use crate::interrupt::Interrupt;
use crate::latency_class;
use crate::order::{Order, STARTING};
use crate::progress::Progress;
use crate::records::{CodePath, Results, Took, Trial};
use crate::siblings::Siblings;
use crate::usage::{Reading, Usage};
use crate::window::{Window, disturbance};

/// Traffic before a window begins.
pub const SETTLE: Duration = Duration::from_millis(30);
/// Tries at one trial; the last counts and is marked.
const ATTEMPTS: u32 = 3;

/// Entries of the rings where the maximum is measured, those of DPDK's driver as well.
pub const MAXIMUM_RING: u16 = 256;

/// Where it runs.
pub struct Place {
    pub program: PathBuf,
    pub driver_cpu: usize,
    pub switch_cpu: usize,
    pub file: PathBuf,
    pub interrupt: Interrupt,
}

impl Place {
    /// The driver's, the switch's.
    pub fn cpus(&self) -> (usize, usize) {
        (self.driver_cpu, self.switch_cpu)
    }
}

/// A system with the driver at its other end.
pub struct Pair {
    pub device: Device,
    pub driver: Option<Driver>,
}

pub struct Bench<'a> {
    /// Open vSwitch takes long to start and finds its next driver by itself: it is started once.
    kept: Vec<Device>,
    /// Its sockets.
    folder: tempfile::TempDir,
    pub order: &'a Order,
    pub place: &'a Place,
    pub results: &'a mut Results,
    pub progress: &'a Progress,
    /// Of [`Order::work`].
    pub(crate) done: u64,
    /// The one that is being measured.
    pub(crate) start: u32,
    pub(crate) siblings: Siblings,
}

impl<'a> Bench<'a> {
    pub fn new(
        order: &'a Order,
        place: &'a Place,
        results: &'a mut Results,
        progress: &'a Progress,
    ) -> anyhow::Result<Self> {
        Ok(Bench {
            kept: Vec::new(),
            folder: tempfile::tempdir()?,
            order,
            place,
            results,
            progress,
            done: 0,
            start: 0,
            siblings: Siblings::default(),
        })
    }

    /// The bridge, and all paths once for each start; what fails is left out with its reason, and the others go on.
    pub fn run(&mut self) -> anyhow::Result<()> {
        // First: it takes little, and nothing of what comes later can leave it without time.
        self.kernel_bridge()?;
        self.results.save(&self.place.file)?;
        for start in 0..self.order.starts {
            self.start = start;
            for &path in &self.order.paths {
                if self.is_late() {
                    let line = format!("{}: start {}, for lack of time", path.name(), start + 1);
                    self.results.left_out.push(line);
                    continue;
                }
                self.path(path)?;
                self.results.save(&self.place.file)?;
            }
        }
        Ok(())
    }

    pub(crate) fn is_late(&self) -> bool {
        Instant::now() > self.order.deadline
    }

    /// Whether more of the time is gone than of the work is done: what could be repeated is not, so that the
    /// last cells have their turn.
    pub(crate) fn is_behind(&self) -> bool {
        self.order.is_behind(self.done)
    }

    fn path(&mut self, path: RingPath) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let sizes = self.order.sizes_in(self.start, path);
        let mut pairs = self
            .timed(format!("starting, {}", path.name()), |bench| bench.start(path, folder.path(), &sizes))?;
        self.done += STARTING;
        self.timed(format!("DPDK driver, {}", path.name()), |bench| {
            for &size in &sizes {
                for &topology in &bench.order.topologies {
                    let cell = Cell {
                        driver: DriverKind::Dpdk,
                        topology,
                        link: Link::Ring(path),
                        frame_bytes: size,
                    };
                    bench.cell(&cell, &mut pairs)?;
                }
            }
            Ok(())
        })?;
        // The sockets take one driver at a time.
        for pair in &mut pairs {
            pair.driver = None;
        }
        let (kept, mut pairs): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|pair| pair.device.system.is_ovs());
        self.kept.extend(kept.into_iter().map(|pair| pair.device));
        if !self.order.generates(path) {
            return Ok(());
        }
        self.timed(format!("own generator, {}", path.name()), |bench| bench.generate(path, &mut pairs))
    }

    /// Runs a part, and notes how long it took.
    pub(crate) fn timed<T>(
        &mut self,
        what: String,
        part: impl FnOnce(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let begin = Instant::now();
        let done = part(self)?;
        self.results.took.push(Took { what, seconds: begin.elapsed().as_secs_f64() });
        Ok(done)
    }

    /// Notes what is not measured; an interruption goes through.
    pub(crate) fn leave_out(&mut self, what: &str, why: &anyhow::Error) -> anyhow::Result<()> {
        self.place.interrupt.check()?;
        let line = format!("{what}: {}", first_lines(&format!("{why:#}")));
        self.progress.note(&line);
        self.results.left_out.push(line);
        Ok(())
    }

    fn start(&mut self, path: RingPath, folder: &Path, sizes: &[u16]) -> anyhow::Result<Vec<Pair>> {
        let mut wanted: Vec<(System, Topology)> = Vec::new();
        for &topology in &self.order.topologies {
            for &size in sizes {
                for system in self.order.systems(topology, size) {
                    // One device with one port serves all ways that need no more.
                    let serves = |(s, t): &(System, Topology)| *s == system && t.ports() == topology.ports();
                    if !wanted.iter().any(serves) {
                        wanted.push((system, topology));
                    }
                }
            }
        }
        let mut pairs = Vec::new();
        for (system, topology) in wanted {
            self.place.interrupt.check()?;
            self.progress.doing(&format!("starting {} ({})", system.name(), path.name()));
            match self.pair(path, folder, system, topology) {
                Ok(pair) => pairs.push(pair),
                Err(error) => self.leave_out(&format!("{}, {}", system.name(), path.name()), &error)?,
            }
        }
        // They take the same each time.
        for pair in pairs.iter().filter(|_| self.start == 0) {
            let Pair { device, driver: Some(driver) } = pair else { continue };
            let (words, features) = driver.code_paths();
            self.results.code_paths.push(CodePath { path, system: device.system, words, features });
        }
        Ok(pairs)
    }

    fn pair(
        &mut self,
        path: RingPath,
        folder: &Path,
        system: System,
        topology: Topology,
    ) -> anyhow::Result<Pair> {
        let kept = self.kept.iter().position(|device| device.system == system);
        let mut device = match kept.map(|at| self.kept.remove(at)) {
            Some(device) => {
                device.resume()?;
                device
            }
            None => {
                let folder = if system.is_ovs() { self.folder.path() } else { folder };
                Device::start(system, topology, folder, self.place, &self.order.setup)?
            }
        };
        let driver = Driver::start(path, &device, self.place.driver_cpu, &self.order.setup)?;
        device.park()?;
        Ok(Pair { device, driver: Some(driver) })
    }

    /// All rounds of one cell.
    fn cell(&mut self, cell: &Cell, pairs: &mut Vec<Pair>) -> anyhow::Result<()> {
        if self.is_late() {
            self.results.left_out.push(format!("{cell}: for lack of time"));
            return Ok(());
        }
        let systems: Vec<System> = self.order.systems(cell.topology, cell.frame_bytes).collect();
        let fits = |pair: &Pair| {
            pair.device.sockets.len() == cell.topology.ports() && systems.contains(&pair.device.system)
        };
        // Those that are done with this cell, and those of them that are done for good.
        let (mut lost, mut broken): (Vec<System>, Vec<System>) = (Vec::new(), Vec::new());
        // Each system is warmed up before, and what that gives is thrown away.
        for pair in pairs.iter_mut().filter(|pair| fits(pair)) {
            if let Err(error) = self.dpdk_trial(cell, pair, Duration::from_millis(30)) {
                self.leave_out(&format!("{}, {cell}", pair.device.system.name()), &error)?;
                lost.push(pair.device.system);
                broken.push(pair.device.system);
            }
        }
        let mut rounds = self.rounds(cell, systems.len())?;
        while rounds.number < rounds.end {
            let (round, wanted) = (rounds.number, rounds.end);
            if self.is_late() {
                let line = format!("{cell}: {round} of {wanted} rounds for lack of time");
                self.results.left_out.push(line);
                return Ok(());
            }
            let mut turn: Vec<usize> = (0..pairs.len()).filter(|&i| fits(&pairs[i])).collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for at in turn {
                let system = pairs[at].device.system;
                if lost.contains(&system) {
                    continue;
                }
                self.progress.step(&format!("{cell}: {}", system.name()));
                let trial = self.order.trial;
                let done = self
                    .until_quiet(cell, system, round, |bench| bench.dpdk_trial(cell, &mut pairs[at], trial));
                if let Err(error) = done {
                    self.leave_out(&format!("{}, {cell}", system.name()), &error)?;
                    lost.push(system);
                    if !error.is::<NothingMoved>() {
                        broken.push(system);
                    }
                }
            }
            self.end_round(cell, &mut rounds)?;
        }
        self.end_cell(rounds);
        // A system that failed may be in any state; one that only was too slow goes on.
        pairs.retain(|pair| !(fits(pair) && broken.contains(&pair.device.system)));
        Ok(())
    }

    /// Keeps one system at work for whoever looks at it with a profiler; ends with a signal.
    pub fn hold(&mut self, system: System) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let (path, frame_bytes) = (self.order.paths[0], self.order.sizes[0]);
        let topology = self.order.topologies[0];
        ensure!(
            System::of(topology).contains(&system),
            "{} has no part in {}; choose another of --topologies",
            system.name(),
            topology.name()
        );
        let Pair { mut device, driver } = self.pair(path, folder.path(), system, topology)?;
        let mut driver = driver.context("a driver")?;
        device.begin(topology, frame_bytes)?;
        driver.begin(topology, frame_bytes)?;
        driver.frames_per_second(topology)?;
        let cell = Cell { driver: DriverKind::Dpdk, topology, link: Link::Ring(path), frame_bytes };
        eprintln!(
            "{cell}: {} is process {}, its packets are on CPU {}; its driver is process {}, CPU {}; ends with Ctrl-C",
            system.name(),
            device.id(),
            self.place.switch_cpu,
            driver.id(),
            self.place.driver_cpu
        );
        loop {
            self.place.interrupt.pause(Duration::from_secs(1))?;
            println!("{:.3} Mpps", driver.frames_per_second(topology)? / 1e6);
        }
    }

    /// Repeats a trial that was disturbed.
    pub(crate) fn until_quiet(
        &mut self,
        cell: &Cell,
        system: System,
        round: u32,
        mut trial: impl FnMut(&mut Self) -> anyhow::Result<Measured>,
    ) -> anyhow::Result<()> {
        for attempt in 0..ATTEMPTS {
            self.place.interrupt.check()?;
            // The systems rest.
            let (arithmetic_before_ns, shared_before) = self.wait_for_undisturbed_cores(cell)?;
            let line_before_ns = latency_class::line_ns(self.place.cpus())?;
            let measured = trial(self)?;
            let line_ns = [line_before_ns, latency_class::line_ns(self.place.cpus())?];
            let (arithmetic_after_ns, shared_after) = self.look_at_siblings()?;
            let disturbed = disturbance(measured.window, &measured.noise);
            let only_shared = disturbed.is_none() && (shared_before || shared_after);
            let noisy = disturbed
                .or_else(|| only_shared.then(|| "a core was disturbed by its SMT sibling".to_owned()))
                .filter(|_| self.order.noise_limits);
            let nothing = measured.frames_per_second == 0.0;
            if nothing && attempt + 1 == ATTEMPTS {
                return Err(NothingMoved.into());
            }
            let noisy = if nothing { Some("no frame was moved".to_owned()) } else { noisy };
            // It will be shared the next time as well.
            let in_vain = only_shared && !nothing && !self.may_wait(cell);
            let last = attempt + 1 == ATTEMPTS || in_vain || self.is_late();
            let verdict = match noisy {
                None => Verdict::Accepted,
                Some(why) if last => Verdict::KeptNoisy(why),
                Some(why) => Verdict::Discarded(why),
            };
            let counts = verdict.counts();
            self.results.trials.push(Trial {
                cell: *cell,
                system,
                start: self.start,
                round,
                attempt,
                frames_per_second: measured.frames_per_second,
                window_ns: measured.window.as_nanos() as u64,
                line_ns,
                arithmetic_ns: [arithmetic_before_ns, arithmetic_after_ns],
                device: measured.device.into(),
                driver: measured.driver.into(),
                steal_ns: measured.noise.steal_ns,
                other_load_ns: measured.noise.other_load_ns,
                clock_jump_ns: measured.noise.clock_jump_ns,
                verdict,
            });
            if counts {
                break;
            }
        }
        Ok(())
    }

    /// One trial with DPDK's driver.
    fn dpdk_trial(&self, cell: &Cell, pair: &mut Pair, time: Duration) -> anyhow::Result<Measured> {
        let Pair { device, driver } = pair;
        let driver = driver.as_mut().ok_or_else(|| anyhow::anyhow!("it has no driver any more"))?;
        let topology = cell.topology;
        device.begin(topology, cell.frame_bytes)?;
        driver.begin(topology, cell.frame_bytes)?;
        self.place.interrupt.pause(SETTLE)?;
        let before = [device.read(topology)?, driver.read(topology)?];
        let window = Window::start([device.id(), driver.id()]);
        driver.frames_per_second(topology)?;
        self.place.interrupt.pause(time)?;
        let frames_per_second = driver.frames_per_second(topology)?;
        let (window, noise) = window.finish();
        let after = [device.read(topology)?, driver.read(topology)?];
        driver.end()?;
        device.end()?;
        // The clock of cycles is the same for all: testpmd names it.
        let mhz = clock(&after);
        let usage = |i: usize| before[i].until(&after[i], mhz);
        Ok(Measured { frames_per_second, window, noise, device: usage(0), driver: usage(1) })
    }
}

/// A trial of a system that is there and moved nothing.
#[derive(Debug)]
struct NothingMoved;

impl std::fmt::Display for NothingMoved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no frame was moved in {ATTEMPTS} trials")
    }
}

impl std::error::Error for NothingMoved {}

/// One trial's figures.
pub struct Measured {
    pub frames_per_second: f64,
    pub window: Duration,
    pub noise: measure::Noise,
    pub device: Usage,
    pub driver: Usage,
}

pub fn clock(readings: &[Reading]) -> Option<f64> {
    readings.iter().find_map(|reading| match reading.spent {
        crate::usage::Spent::Cycles { mhz, .. } => mhz,
        _ => None,
    })
}

/// Programs answer at length.
fn first_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    let mut line = lines.join(" / ");
    if line.len() > 400 {
        let end = (0..=400).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0);
        line.truncate(end);
        line.push('…');
    }
    line
}
