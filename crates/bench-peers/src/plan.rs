//! The plan of a run, as data: the cells, the systems in each, the number of rounds, and the amount of work.
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use peers::{Pages, ovs, testpmd};
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, DriverKind, RingPath, System, Topology, is_headline};

/// A search for zero loss takes as long as this number of trials.
pub const SEARCHING: usize = 40;
/// The part of the time in which everything must be done; the rest is for work that takes longer than planned.
const WITHIN: f64 = 0.95;
/// Starts of the systems of each ring path: the least that shows what another start changes.
const STARTS: u32 = 2;
/// Rounds at sizes between the smallest and the largest: enough for a median.
const ROUNDS_BETWEEN: u32 = 3;
/// The length of a trial in ms.
pub const TRIAL_MS: u64 = 60;
/// The length of a trial of the search for zero loss in ms; it is short because a shared machine pauses a few times a
/// second.
pub const SEARCH_TRIAL_MS: u64 = 25;
/// The number of ring entries when the maximum is measured; DPDK's driver uses the same number.
pub const MAXIMUM_RING: u16 = 256;
/// The number of ring entries in the search; at 20 Mpps 256 entries hold 13 µs, which is less than a shared machine's
/// pauses.
pub const SEARCH_RING: u16 = 1024;
/// The longest time that a started program may take until it is ready.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The duration of traffic before a measurement begins.
pub const SETTLE: Duration = Duration::from_millis(30);
/// The two addresses at the guest's end.
pub const ADDRESSES: [&str; 2] = ["02:00:00:00:aa:01", "02:00:00:00:aa:02"];

/// The plan of a run: the options, completed by [`RunPlan::complete`]. The results contain this value unchanged.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
pub struct RunPlan {
    /// Measure two ring paths and two sizes, within 5 minutes. Without this option all are measured, within 25
    /// minutes.
    #[arg(long)]
    pub quick: bool,

    /// testpmd as the device: this build of it [default: the installed one].
    #[arg(long, value_name = "PATH")]
    pub testpmd: Option<PathBuf>,

    /// testpmd as the driver: this build of it [default: the installed one].
    #[arg(long, value_name = "PATH")]
    pub testpmd_driver: Option<PathBuf>,

    /// Open vSwitch with DPDK: the build in this folder, where it was built, installed or unpacked to.
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_ovs")]
    pub ovs: Option<PathBuf>,

    /// Leave out Open vSwitch.
    #[arg(long)]
    pub no_ovs: bool,

    /// Only these ring paths.
    #[arg(long, value_delimiter = ',', value_name = "PATH,…")]
    pub paths: Vec<RingPath>,

    /// Only these frame sizes, in bytes with frame check sequence, as RFC 2544 counts them.
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…", value_parser = clap::value_parser!(u16).range(64..=1518))]
    pub sizes: Vec<u16>,

    /// Only these topologies.
    #[arg(long, value_delimiter = ',', value_name = "TOPOLOGY,…")]
    pub topologies: Vec<Topology>,

    /// The number of turns of each system in each cell, spread over two starts of the systems; intervals require six
    /// or more. Sizes between the smallest and the largest have three rounds, unless --sizes names them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// No trial begins after this time, such as 90s or 20min [default: 4.5min with --quick, 24min without].
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub time: Option<f64>,

    /// Leave out the kernel's bridge.
    #[arg(long)]
    pub no_bridge: bool,

    /// Measure only the kernel's bridge, and no system with rings.
    #[arg(long, conflicts_with_all = ["no_bridge", "no_generator", "paths", "topologies"])]
    pub only_bridge: bool,

    /// Leave out the measurements with this project's generator: touched payloads, zero loss.
    #[arg(long)]
    pub no_generator: bool,

    /// Measure only forwarding by flow tables, from guest to guest: this switch and Open vSwitch with the flows of this
    /// file, and frames of 256 source addresses.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only_bridge", "no_ovs", "topologies"])]
    pub flows: Option<PathBuf>,

    /// The number of flows of the frames with --flows, as DPDK's generator makes them: UDP to as many addresses from
    /// 10.253.0.0 on. Without this option 256 frames of as many source addresses go round.
    #[arg(long, value_name = "N", requires = "flows", value_parser = clap::value_parser!(u32).range(1..))]
    pub active_flows: Option<u32>,

    /// With --flows, each frame goes back the way it came with its addresses and ports exchanged, so that one connection is
    /// established. Its hosts are 10.0.0.1 at the first port and 10.0.0.2 at the second.
    #[arg(long, requires = "flows", conflicts_with = "active_flows")]
    #[serde(default)]
    pub answered: bool,

    /// Accept disturbed trials, on a busy machine: such a run shows only that the programs work.
    #[arg(long)]
    pub accept_noise: bool,

    /// The number of rounds at sizes between the smallest and the largest.
    #[arg(skip)]
    pub rounds_between: u32,
    #[arg(skip)]
    pub driver_cpu: usize,
    #[arg(skip)]
    pub switch_cpu: usize,
    /// Whether drivers and DPDK's switches have memory of huge pages.
    #[arg(skip)]
    pub huge_pages: bool,
    /// The reason why huge pages are not used, if they were requested.
    #[arg(skip)]
    pub no_huge_pages: Option<String>,
}

/// A duration with its unit.
fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    let unit =
        [("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)].iter().find(|(name, _)| *name == unit);
    let seconds = number.parse::<f64>().ok().zip(unit).map(|(number, (_, unit))| number * unit);
    seconds.filter(|seconds| *seconds > 0.0).ok_or_else(|| "write a time with ms, s, min or h".to_owned())
}

/// A cell with the systems that take turns in it.
pub struct PlannedCell {
    pub cell: Cell,
    pub systems: Vec<System>,
    pub rounds: Range<u32>,
    /// The systems for which zero loss is searched: one of the peers and one of this project are enough, because a
    /// search consists of many trials and needs its own start of the rings.
    pub searched: Vec<System>,
}

impl PlannedCell {
    pub fn has(&self, system: System, ports: usize) -> bool {
        ports == self.cell.topology.ports() && self.systems.contains(&system)
    }
}

impl RunPlan {
    /// Fills in the settings that were not given.
    pub fn complete(mut self) -> Self {
        // Sizes that the user names have all rounds.
        self.rounds_between =
            if self.sizes.is_empty() { self.rounds.min(ROUNDS_BETWEEN) } else { self.rounds };
        let (paths, sizes) = match self.quick {
            true => (&[RingPath::Split, RingPath::PackedInOrder][..], &[64, 1518][..]),
            false => (RingPath::value_variants(), &[64, 1518, 128, 256, 512, 1024][..]),
        };
        if self.paths.is_empty() && !self.only_bridge {
            self.paths = paths.to_vec();
        }
        if self.sizes.is_empty() {
            self.sizes = sizes.to_vec();
        }
        if self.flows.is_some() {
            self.topologies = vec![Topology::Vm2vm];
            (self.no_bridge, self.no_generator) = (true, true);
        }
        if self.topologies.is_empty() {
            self.topologies = Topology::value_variants().to_vec();
        }
        self
    }

    pub fn pages(&self) -> Pages {
        if self.huge_pages { Pages::Huge } else { Pages::Small }
    }

    pub fn starts(&self) -> u32 {
        self.rounds.min(STARTS)
    }

    pub fn testpmd_device(&self) -> testpmd::Settings {
        let settings = testpmd::Settings::default().program(self.testpmd.clone()).pages(self.pages());
        settings.arguments(["--record-core-cycles"]).forwarding_cpu(self.switch_cpu)
    }

    pub fn testpmd_driver(&self) -> testpmd::Settings {
        let settings = testpmd::Settings::default().program(self.testpmd_driver.clone()).pages(self.pages());
        settings.arguments(["--record-core-cycles"]).simd_bits(512).forwarding_cpu(self.driver_cpu)
    }

    pub fn ovs(&self) -> ovs::Settings {
        ovs::Settings::default().folder(self.ovs.clone()).pages(self.pages())
    }

    /// All cells of a ring path in one start with this driver.
    pub fn cells(&self, start: u32, path: RingPath, driver: DriverKind) -> Vec<PlannedCell> {
        let own = driver == DriverKind::Tautline;
        let mut cells = Vec::new();
        for &frame_bytes in &self.sizes {
            // DPDK's vector path of the split ring differs from it in one direction: two sizes are enough.
            let few = own || path == RingPath::SplitVectorised;
            let rounds = self.rounds_in(start, frame_bytes);
            if rounds.is_empty() || (few && !is_headline(frame_bytes)) || (own && !self.generates(path)) {
                continue;
            }
            let both_ways = |topology: &Topology| matches!(topology, Topology::Vm2vm | Topology::Loop);
            for &topology in self.topologies.iter().filter(|topology| !own || both_ways(topology)) {
                let wanted = |system: &System| match system {
                    System::OvsLearning | System::OvsPortFlow => {
                        !self.no_ovs && !own && is_headline(frame_bytes)
                    }
                    System::TautlineLearning => is_headline(frame_bytes),
                    _ => true,
                };
                let all = if self.flows.is_some() { System::BY_FLOWS } else { System::of(topology) };
                let systems: Vec<System> = all.iter().copied().filter(wanted).collect();
                let mut searched = systems.clone();
                searched.retain(|system| own && start == 0 && *system != System::TautlineLearning);
                let cell = Cell { driver, topology, path: Some(path), frame_bytes };
                cells.push(PlannedCell { cell, systems, rounds: rounds.clone(), searched });
            }
        }
        cells
    }

    fn generates(&self, path: RingPath) -> bool {
        !self.no_generator && !path.is_vectorised()
    }

    pub fn bridge_sizes(&self) -> Vec<u16> {
        let none = self.no_bridge || self.no_generator || !self.topologies.contains(&Topology::Vm2vm);
        self.sizes.iter().copied().filter(|size| !none && is_headline(*size)).collect()
    }

    /// The rounds of a cell in one start: as many in each; those of sizes between in the first, if they are few.
    fn rounds_in(&self, start: u32, frame_bytes: u16) -> Range<u32> {
        if !is_headline(frame_bytes) && self.rounds_between < self.rounds {
            return if start == 0 { 0..self.rounds_between } else { 0..0 };
        }
        let until = |starts: u32| self.rounds * starts / self.starts();
        until(start)..until(start + 1)
    }

    /// All there is to do, in trials.
    fn work(&self) -> usize {
        let starts = (0..self.starts()).flat_map(|start| self.paths.iter().map(move |path| (start, *path)));
        let cells = starts.flat_map(|(start, path)| {
            let both = [DriverKind::Dpdk, DriverKind::Tautline];
            both.into_iter().flat_map(move |driver| self.cells(start, path, driver))
        });
        let work = cells.map(|cell| cell.systems.len() * cell.rounds.len() + cell.searched.len() * SEARCHING);
        work.sum::<usize>() + self.bridge_sizes().len() * SEARCHING
    }
}

/// The progress of a run.
pub struct Pace {
    begin: Instant,
    limit_s: f64,
    work: f64,
    /// In trials.
    pub done: usize,
}

impl Pace {
    pub fn of(plan: &RunPlan) -> Self {
        let limit_s = plan.time.unwrap_or(if plan.quick { 270.0 } else { 1440.0 });
        Pace { begin: Instant::now(), limit_s, work: plan.work() as f64, done: 0 }
    }

    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Whether it is too late to begin another trial.
    pub fn is_late(&self) -> bool {
        self.elapsed().as_secs_f64() > self.limit_s
    }

    /// Whether the used share of the time is larger than the done share of the work: optional repetitions are then
    /// left out, so that the last cells have their turn.
    pub fn is_behind(&self) -> bool {
        self.elapsed().as_secs_f64() / (self.limit_s * WITHIN) > self.part()
    }

    /// The share of the work that is done, 0 to 1.
    pub fn part(&self) -> f64 {
        self.done as f64 / self.work
    }
}
