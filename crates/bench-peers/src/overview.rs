//! The whole run in a few lines: ours beside DPDK's vhost and Open vSwitch, the paths of a ring layout together, and
//! each distance of the cores by itself.
use std::collections::BTreeMap;

use measure::bootstrap::{Block, RatioEstimate, ratio};

use crate::cell::{Cell, DriverKind, Goal, Link, System, Topology, busy_goal, goal};
use crate::distance::{Distance, Distances};
use crate::records::{Results, Trial};

/// What is held against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Frames per second over testpmd's.
    Rate,
    /// Frames per second of a switch that learns, over Open vSwitch's.
    Learning,
    /// The switch core's time for a frame over testpmd's: less is better.
    Busy,
}

impl Figure {
    const ALL: [Figure; 3] = [Figure::Rate, Figure::Learning, Figure::Busy];

    pub fn name(self) -> &'static str {
        match self {
            Figure::Rate => "rate, over testpmd",
            Figure::Learning => "rate, learning over OVS-DPDK",
            Figure::Busy => "busy time, over testpmd (less is better)",
        }
    }

    /// Ours, and what it is held against.
    fn systems(self, topology: Topology) -> (System, System) {
        match (self, topology) {
            (Figure::Learning, _) => (System::TautlineLearning, System::OvsLearning),
            (_, Topology::Vm2vm) => (System::TautlineWire, System::Testpmd),
            _ => (System::TautlinePort, System::Testpmd),
        }
    }

    fn of(self, trial: &Trial) -> Option<f64> {
        match self {
            Figure::Rate | Figure::Learning => Some(trial.frames_per_second),
            Figure::Busy => trial.device.busy_ns_per_frame,
        }
    }

    fn goal(self, cell: &Cell) -> Option<Goal> {
        let (own, base) = self.systems(cell.topology);
        match self {
            Figure::Rate | Figure::Learning => goal(cell, own, base),
            Figure::Busy => busy_goal(cell, own),
        }
    }
}

/// Cells whose rounds stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub driver: DriverKind,
    pub figure: Figure,
    pub topology: Topology,
    pub frame_bytes: u16,
    pub packed: bool,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    pub group: Group,
    pub goal: Option<Goal>,
    /// For each of [`Distances::all`]; none where there was no round.
    pub ratios: Vec<(Distance, Option<RatioEstimate>)>,
}

/// All lines, smallest and largest frames.
pub fn lines(results: &Results) -> Vec<Line> {
    let distances = Distances::of(results);
    // A round of a cell is one block: within it the systems were measured a moment apart.
    let mut groups: BTreeMap<Group, BTreeMap<(Distance, Cell, u32), Block>> = BTreeMap::new();
    let mut goals = BTreeMap::new();
    for trial in results.trials.iter().filter(|trial| trial.verdict.counts()) {
        let Cell { driver, topology, link: Link::Ring(path), frame_bytes: frame_bytes @ (64 | 1518) } =
            trial.cell
        else {
            continue;
        };
        let Some(distance) = distances.in_trial(trial) else { continue };
        for figure in Figure::ALL {
            let (own, base) = figure.systems(topology);
            let Some(value) = figure.of(trial).filter(|_| trial.system == own || trial.system == base) else {
                continue;
            };
            let group = Group { driver, figure, topology, frame_bytes, packed: path.is_packed() };
            goals.insert(group, figure.goal(&trial.cell));
            let blocks = groups.entry(group).or_default();
            let empty = Block { base: Vec::new(), other: Vec::new() };
            let block = blocks.entry((distance, trial.cell, trial.round)).or_insert(empty);
            if trial.system == own { block.other.push(value) } else { block.base.push(value) }
        }
    }
    let line = |(group, blocks): (Group, BTreeMap<(Distance, Cell, u32), Block>)| -> Line {
        let of = |distance: Distance| -> Vec<Block> {
            blocks.iter().filter(|((d, ..), _)| *d == distance).map(|(_, block)| block.clone()).collect()
        };
        let ratios = distances.all().iter().map(|d| (*d, ratio(&of(*d)))).collect();
        Line { group, goal: goals[&group], ratios }
    };
    let lines = groups.into_iter().map(line);
    lines.filter(|line| line.ratios.iter().any(|(_, ratio)| ratio.is_some())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::RingPath;
    use crate::records::{results_for_tests, trial_for_tests};

    #[test]
    fn rounds_of_one_distance_and_one_layout_stand_together() {
        let mut results = results_for_tests();
        let mut round = |path, round: u32, line_ns: f64, own: f64, base: f64| {
            let cell = Cell {
                driver: DriverKind::Dpdk,
                topology: Topology::Loop,
                link: Link::Ring(path),
                frame_bytes: 64,
            };
            for (system, frames_per_second) in [(System::TautlinePort, own), (System::Testpmd, base)] {
                results.trials.push(Trial {
                    cell,
                    round,
                    line_ns: [line_ns; 2],
                    ..trial_for_tests(cell.link, system, frames_per_second)
                });
            }
        };
        for number in 0..4 {
            round(RingPath::Packed, number, 28.0, 30e6, 15e6);
            round(RingPath::PackedInOrder, number, 28.0, 12e6, 6e6);
            round(RingPath::Split, number, 28.0, 3e6, 1e6);
        }
        round(RingPath::Packed, 4, 130.0, 6e6, 6e6);
        let found: Vec<_> = lines(&results)
            .into_iter()
            .filter(|line| line.group.figure == Figure::Rate)
            .map(|line| {
                let ratios = line.ratios.iter().map(|(distance, ratio)| {
                    (*distance, ratio.map(|ratio| ((ratio.ratio * 100.0).round(), ratio.blocks)))
                });
                (line.group.packed, line.goal.unwrap().floor, ratios.collect::<Vec<_>>())
            })
            .collect();
        let (near, far) = (Distance::Near, Distance::Far);
        assert_eq!(
            found,
            [
                (false, 1.15, vec![(near, Some((300.0, 4))), (far, None)]),
                (true, 1.15, vec![(near, Some((200.0, 8))), (far, Some((100.0, 1)))]),
            ]
        );
    }
}
