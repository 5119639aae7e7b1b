//! What is to be done, and how much that is.
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use peers::{Pages, ovs, testpmd};

use crate::cell::{RingPath, System, Topology, is_headline};

/// Which builds of the peers are measured, and what everyone's memory is made of.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    pub pages: Pages,
    /// testpmd as the device, and as the driver; the installed one otherwise.
    pub testpmd: Option<PathBuf>,
    pub testpmd_driver: Option<PathBuf>,
    /// The folder of Open vSwitch.
    pub ovs: Option<PathBuf>,
}

impl Setup {
    pub fn device(&self) -> testpmd::Settings {
        let settings = testpmd::Settings::default().program(self.testpmd.clone());
        settings.pages(self.pages).arguments(["--record-core-cycles"])
    }

    pub fn driver(&self) -> testpmd::Settings {
        let settings = testpmd::Settings::default().program(self.testpmd_driver.clone());
        settings.pages(self.pages).arguments(["--record-core-cycles"]).simd_bits(512)
    }

    pub fn ovs(&self) -> ovs::Settings {
        ovs::Settings::default().folder(self.ovs.clone()).pages(self.pages)
    }
}

/// What is to be done.
pub struct Order {
    pub paths: Vec<RingPath>,
    pub sizes: Vec<u16>,
    pub topologies: Vec<Topology>,
    /// Sizes at which Open vSwitch and a switch of ours that learns are measured too.
    pub learning_sizes: Vec<u16>,
    pub ovs: bool,
    /// Sizes at which the kernel's bridge is measured.
    pub bridge_sizes: Vec<u16>,
    /// Sizes at which our generator measures, and searches for the highest rate without loss.
    pub generator_sizes: Vec<u16>,
    /// Rounds of each cell, over all starts.
    pub rounds: u32,
    /// At sizes between the smallest and the largest.
    pub rounds_between: u32,
    /// How often the systems of a ring path are started: the rounds of one start have its memory layout in common.
    pub starts: u32,
    pub trial: Duration,
    pub search_trial: Duration,
    pub search_ring: u16,
    pub noise_limits: bool,
    pub setup: Setup,
    pub begin: Instant,
    pub deadline: Instant,
}

/// What starting the systems of a ring path takes, in trials with DPDK's driver.
pub const STARTING: u64 = 40;
/// What a search for zero loss takes, in the same.
pub const SEARCHING: u64 = 20;

/// The part of the time in which all is to be done: the rest is for what takes longer than was thought.
const WITHIN: f64 = 0.95;

impl Order {
    /// Vector paths of the split ring differ from it in one direction: two sizes are enough.
    pub fn sizes_of(&self, path: RingPath) -> Vec<u16> {
        let few = path == RingPath::SplitVectorised;
        self.sizes.iter().copied().filter(|size| !few || is_headline(*size)).collect()
    }

    /// Those that have rounds in this start.
    pub fn sizes_in(&self, start: u32, path: RingPath) -> Vec<u16> {
        let mut sizes = self.sizes_of(path);
        sizes.retain(|size| !self.rounds_in(start, *size).is_empty());
        sizes
    }

    pub fn systems(&self, topology: Topology, size: u16) -> impl Iterator<Item = System> {
        let (learning, ovs) = (self.learning_sizes.contains(&size), self.ovs);
        let few = |system: System| system.is_ovs() || system == System::TautlineLearning;
        let wanted = move |system: &System| (learning || !few(*system)) && (ovs || !system.is_ovs());
        System::of(topology).iter().copied().filter(wanted)
    }

    pub fn generates(&self, path: RingPath) -> bool {
        !path.is_vectorised() && !self.generator_sizes.is_empty()
    }

    /// The ways that our generator measures.
    pub fn generator_topologies(&self) -> impl Iterator<Item = Topology> {
        self.topologies.iter().copied().filter(|t| matches!(t, Topology::Vm2vm | Topology::Loop))
    }

    /// The rounds of a cell in one start: as many in each; those of sizes between in the first, if they are few.
    pub fn rounds_in(&self, start: u32, frame_bytes: u16) -> Range<u32> {
        if !is_headline(frame_bytes) && self.rounds_between < self.rounds {
            return if start == 0 { 0..self.rounds_between } else { 0..0 };
        }
        let until = |starts: u32| self.rounds * starts / self.starts;
        until(start)..until(start + 1)
    }

    fn rounds_of(&self, frame_bytes: u16) -> u64 {
        (0..self.starts).map(|start| self.rounds_in(start, frame_bytes).len() as u64).sum()
    }

    /// Trials with DPDK's driver, without repeats.
    pub fn steps(&self) -> u64 {
        let rings: u64 = self.paths.iter().map(|path| self.steps_of(*path)).sum();
        rings + self.bridge_sizes.len() as u64 * u64::from(self.rounds)
    }

    fn steps_of(&self, path: RingPath) -> u64 {
        let sizes = self.sizes_of(path);
        let cells = sizes.iter().flat_map(|size| self.topologies.iter().map(|t| (*size, *t)));
        let trials = |(size, topology)| self.systems(topology, size).count() as u64 * self.rounds_of(size);
        cells.map(trials).sum()
    }

    /// All there is to do, in trials with DPDK's driver.
    pub fn work(&self) -> u64 {
        let of_path = |path: &RingPath| {
            let generator = if self.generates(*path) { self.generator_work() } else { 0 };
            STARTING * u64::from(self.starts) + self.steps_of(*path) + generator
        };
        let rings: u64 = self.paths.iter().map(of_path).sum();
        let of_bridge = |size: &u16| {
            let rounds = u64::from(self.rounds);
            if self.generator_sizes.contains(size) { 2 * rounds + SEARCHING } else { rounds }
        };
        rings + self.bridge_sizes.iter().map(of_bridge).sum::<u64>()
    }

    fn generator_work(&self) -> u64 {
        let cells =
            self.generator_topologies().flat_map(|t| self.generator_sizes.iter().map(move |size| (t, *size)));
        let of_cell = |(topology, size)| {
            let own: Vec<System> = self.systems(topology, size).filter(|system| !system.is_ovs()).collect();
            let searched = own.iter().filter(|system| **system != System::TautlineLearning).count();
            own.len() as u64 * self.rounds_of(size) + searched as u64 * SEARCHING
        };
        cells.map(of_cell).sum()
    }

    /// Whether more of the time is gone than of the work is done.
    pub fn is_behind(&self, done: u64) -> bool {
        let Order { begin, deadline, .. } = *self;
        let gone = begin.elapsed().as_secs_f64() / ((deadline - begin).as_secs_f64() * WITHIN);
        gone > done as f64 / self.work() as f64
    }
}
