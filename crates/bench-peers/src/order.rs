//! What is to be done, and how much that is.
use std::time::{Duration, Instant};

use peers::Pages;

use crate::cell::{RingPath, System, Topology, has_goals};

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
    pub rounds: u32,
    /// At sizes without goals.
    pub rounds_between: u32,
    pub trial: Duration,
    pub search_trial: Duration,
    pub search_ring: u16,
    pub noise_limits: bool,
    /// What the memory of DPDK, at both ends of the rings, and of our generator is made of.
    pub pages: Pages,
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
        self.sizes.iter().copied().filter(|size| !few || has_goals(*size)).collect()
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

    /// Turns of each system.
    pub fn rounds_at(&self, frame_bytes: u16) -> u32 {
        if has_goals(frame_bytes) { self.rounds } else { self.rounds_between }
    }

    /// Trials with DPDK's driver, without repeats.
    pub fn steps(&self) -> u64 {
        let rings: u64 = self.paths.iter().map(|path| self.steps_of(*path)).sum();
        rings + self.bridge_sizes.len() as u64 * u64::from(self.rounds)
    }

    fn steps_of(&self, path: RingPath) -> u64 {
        let sizes = self.sizes_of(path);
        let cells = sizes.iter().flat_map(|size| self.topologies.iter().map(|t| (*size, *t)));
        let trials =
            |(size, topology)| self.systems(topology, size).count() as u64 * u64::from(self.rounds_at(size));
        cells.map(trials).sum()
    }

    /// All there is to do, in trials with DPDK's driver.
    pub fn work(&self) -> u64 {
        let of_path = |path: &RingPath| {
            let generator = if self.generates(*path) { self.generator_work() } else { 0 };
            STARTING + self.steps_of(*path) + generator
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
            own.len() as u64 * u64::from(self.rounds_at(size)) + searched as u64 * SEARCHING
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
