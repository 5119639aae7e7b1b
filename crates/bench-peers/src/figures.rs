//! Computes figures from trials: medians, ratios with intervals, and the side that was the bottleneck.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use measure::Verdict;
use measure::bootstrap::{Block, RatioEstimate, ratio};
use measure::statistics::median;

use crate::cell::{Cell, DriverKind, System, Topology, is_headline};
use crate::machine::latency_class::{limit_ns, of_trial};
use crate::results::{Results, Trial};

/// Idle fractions closer than this say that both sides were at their limit.
const EQUAL_IDLE: f64 = 0.05;

/// One system in one cell, in the rounds of one latency class.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: Cell,
    pub class: &'static str,
    pub system: System,
    pub rounds: usize,
    /// The number of starts of the systems in which these rounds were.
    pub starts: usize,
    /// The median over the rounds.
    pub frames_per_second: f64,
    /// The ratios of this project's system to each peer that does the same work.
    pub against: Vec<Against>,
    pub busy_ns_per_frame: Option<f64>,
    pub device_idle: Option<f64>,
    pub driver_idle: Option<f64>,
    /// The rate divided by the rate that the cache-transfer limit allows.
    pub of_limit: Option<f64>,
    /// The ratio to the limit for the rate that the busy time allows: the switch would reach that rate if it never
    /// waited for the driver.
    pub busy_of_limit: Option<f64>,
    /// The number of disturbed trials that count.
    pub noisy: usize,
}

/// A system of this project compared with a peer.
#[derive(Clone, Debug)]
pub struct Against {
    pub peer: System,
    /// The rate divided by the peer's rate. Rounds of one start are not independent: the interval does not include
    /// differences between starts.
    pub rate: RatioEstimate,
    /// The ratio of rates for each start alone, if several starts have both systems.
    pub by_start: Vec<f64>,
    /// The busy time for a frame divided by the peer's.
    pub busy: Option<f64>,
}

impl Row {
    /// The side that waits less.
    pub fn limited_by(&self) -> &'static str {
        match (self.device_idle, self.driver_idle) {
            (Some(device), Some(driver)) if (device - driver).abs() <= EQUAL_IDLE => "both",
            (Some(device), Some(driver)) if device < driver => "device",
            (Some(_), Some(_)) => "driver",
            _ => "?",
        }
    }

    pub fn against(&self, is_peer: impl Fn(System) -> bool) -> Option<&Against> {
        self.against.iter().find(|against| is_peer(against.peer))
    }
}

type BySystem<'a> = BTreeMap<System, Vec<&'a Trial>>;

/// All rows of a driver and a topology; small and large frames come before the sizes between them.
pub fn rows(results: &Results, driver: DriverKind, topology: Topology) -> Vec<Row> {
    let limit_ns = limit_ns(results);
    let mut groups: BTreeMap<_, BySystem<'_>> = BTreeMap::new();
    for trial in results.trials.iter().filter(|trial| trial.verdict.counts()) {
        let (cell, class) = (trial.cell, of_trial(trial, limit_ns));
        if let Some(class) = class.filter(|_| cell.driver == driver && cell.topology == topology) {
            let key = (!is_headline(cell.frame_bytes), cell.frame_bytes, cell.path, Reverse(class));
            groups.entry(key).or_default().entry(trial.system).or_default().push(trial);
        }
    }
    let rows = groups.iter().flat_map(|((.., Reverse(class)), of_system)| {
        of_system.keys().map(move |system| row(class, *system, of_system))
    });
    rows.collect()
}

/// The numbers of rounds of the run's ratios that have an interval.
pub fn intervals(results: &Results) -> Vec<usize> {
    let of =
        |driver| results.plan.topologies.iter().flat_map(move |topology| rows(results, driver, *topology));
    let rows = [DriverKind::Dpdk, DriverKind::Tautline].into_iter().flat_map(of);
    let rates = rows.flat_map(|row| row.against).map(|against| against.rate);
    rates.filter(|rate| rate.interval.is_some()).map(|rate| rate.blocks).collect()
}

fn row(class: &'static str, system: System, of_system: &BySystem<'_>) -> Row {
    let own = &of_system[&system];
    let cell = own[0].cell;
    let middle = |trials: &[&Trial], of: &dyn Fn(&Trial) -> Option<f64>| {
        median(&trials.iter().filter_map(|trial| of(trial)).collect::<Vec<_>>())
    };
    let busy = |trials: &[&Trial]| middle(trials, &|t| t.measured.device.busy_ns_per_frame);
    let starts: BTreeSet<u32> = own.iter().map(|trial| trial.start).collect();
    let against = |peer: &System| {
        let base = of_system.get(peer)?;
        let blocks = blocks(base, own);
        let estimate = |of: &dyn Fn(u32) -> bool| {
            let blocks = blocks.iter().filter(|(start, _)| of(*start)).map(|(_, block)| block.clone());
            ratio(&blocks.collect::<Vec<_>>())
        };
        let by_start = starts.iter().filter_map(|start| Some(estimate(&|of| of == *start)?.ratio));
        let by_start: Vec<f64> = by_start.collect();
        Some(Against {
            peer: *peer,
            rate: estimate(&|_| true)?,
            by_start: if by_start.len() > 1 { by_start } else { Vec::new() },
            busy: busy(own).zip(busy(base).filter(|busy| *busy > 0.0)).map(|(own, base)| own / base),
        })
    };
    // The cost of a line changes from one moment to the next, so each trial is compared with the limit of its round.
    let to_limit = |of: &dyn Fn(&Trial) -> Option<f64>| {
        middle(own, &|trial| Some(of(trial)? / Some(trial.transfer_limit_fps).filter(|limit| *limit > 0.0)?))
    };
    Row {
        cell,
        class,
        system,
        rounds: own.len(),
        starts: starts.len(),
        frames_per_second: middle(own, &|t| Some(t.measured.frames_per_second)).unwrap_or(0.0),
        against: system.peers().iter().filter_map(against).collect(),
        busy_ns_per_frame: busy(own),
        device_idle: middle(own, &|t| t.measured.device.idle),
        driver_idle: middle(own, &|t| t.measured.driver.idle),
        of_limit: to_limit(&|trial| Some(trial.measured.frames_per_second)),
        busy_of_limit: to_limit(&|trial| Some(1e9 / trial.measured.device.busy_ns_per_frame?)),
        noisy: own.iter().filter(|trial| trial.verdict != Verdict::Accepted).count(),
    }
}

/// Rounds are the blocks, each with its start: within one the systems were measured a moment apart.
fn blocks(base: &[&Trial], other: &[&Trial]) -> Vec<(u32, Block)> {
    let rounds: BTreeSet<(u32, u32)> =
        base.iter().chain(other).map(|trial| (trial.start, trial.round)).collect();
    let of = |trials: &[&Trial], round: u32| -> Vec<f64> {
        trials.iter().filter(|t| t.round == round).map(|t| t.measured.frames_per_second).collect()
    };
    let block = |(start, round)| (start, Block { base: of(base, round), other: of(other, round) });
    rounds.into_iter().map(block).collect()
}

/// One row of the overview: the systems of a cell in one latency class.
pub struct Line {
    /// The system that is compared to DPDK: the wire, or the port alone.
    pub own: Row,
    pub testpmd: Option<Row>,
    /// The systems that learn addresses, if there are two ports.
    pub learning: Option<Row>,
    pub ovs: Option<Row>,
}

/// A summary of the whole run in at most ten lines: the smallest frames everywhere, and the largest between two
/// ports, each for a split ring and a packed ring. Of each ring, the path is shown that was measured first, which is
/// the path that drivers choose. If a cell was measured in two latency classes, the class with more rounds is shown.
pub fn overview(results: &Results) -> Vec<Line> {
    let plan = &results.plan;
    let paths =
        [false, true].map(|packed| plan.paths.iter().find(|path| path.is_packed() == packed).copied());
    let (least, most) = (plan.sizes.iter().min(), plan.sizes.iter().max());
    let mut lines = Vec::new();
    for topology in &plan.topologies {
        let rows = rows(results, DriverKind::Dpdk, *topology);
        let sizes = [least, most.filter(|most| *topology == Topology::Vm2vm && Some(*most) != least)];
        for frame_bytes in sizes.into_iter().flatten() {
            for path in paths.iter().flatten() {
                let of = |row: &&Row| row.cell.path == Some(*path) && row.cell.frame_bytes == *frame_bytes;
                lines.extend(line(&rows.iter().filter(of).collect::<Vec<_>>()));
            }
        }
    }
    lines
}

fn line(of_cell: &[&Row]) -> Option<Line> {
    let own = of_cell.iter().filter(|row| matches!(row.system, System::TautlineWire | System::TautlinePort));
    // Rounds in which both were measured.
    let both =
        |row: &Row| row.against(|peer| peer == System::Testpmd).map_or(0, |against| against.rate.blocks);
    let own = own.max_by_key(|row| (both(row), row.rounds, row.class))?;
    let beside = |system| of_cell.iter().find(|row| row.system == system && row.class == own.class);
    let [testpmd, learning, ovs] = [System::Testpmd, System::TautlineLearning, System::OvsLearning]
        .map(|system| beside(system).map(|row| (*row).clone()));
    Some(Line { own: (*own).clone(), testpmd, learning, ovs })
}
