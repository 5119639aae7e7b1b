//! From trials to figures: medians, ratios with intervals, and which side was the bottleneck.
use std::collections::{BTreeMap, BTreeSet};

use measure::bootstrap::{Block, RatioEstimate, ratio};
use measure::statistics::median;
use traffic::search::Finding;

use crate::cell::{
    BOUND_GOAL, Cell, DriverKind, Goal, Link, System, Topology, ZERO_LOSS_GOAL, busy_goal, goal, has_goals,
};
use crate::distance::{Distance, Distances};
use crate::records::{Results, Trial, UsageRecord, ZeroLoss};

/// Idle shares closer than this say that both sides were at their limit.
const EQUAL_IDLE: f64 = 0.05;

/// Which side could not go faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    Switch,
    Driver,
    Both,
    Unknown,
}

impl Bottleneck {
    /// The side that waited less.
    pub fn of(device_idle: Option<f64>, driver_idle: Option<f64>) -> Self {
        let (Some(device), Some(driver)) = (device_idle, driver_idle) else { return Bottleneck::Unknown };
        if (device - driver).abs() <= EQUAL_IDLE {
            Bottleneck::Both
        } else if device < driver {
            Bottleneck::Switch
        } else {
            Bottleneck::Driver
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Switch => "switch",
            Bottleneck::Driver => "driver",
            Bottleneck::Both => "both",
            Bottleneck::Unknown => "?",
        }
    }
}

/// How a figure stands to what it is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    /// Below the floor.
    Missed,
    Floor,
    Target,
}

impl Reached {
    /// `value` where more is better if the target is above the floor, less otherwise.
    pub fn of(value: f64, goal: Goal) -> Self {
        let better = |than: f64| if goal.target >= goal.floor { value >= than } else { value <= than };
        match (better(goal.target), better(goal.floor)) {
            (true, _) => Reached::Target,
            (_, true) => Reached::Floor,
            _ => Reached::Missed,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Reached::Missed => "MISSED",
            Reached::Floor => "floor",
            Reached::Target => "target",
        }
    }
}

/// One system in one cell, in the rounds of one distance.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: Cell,
    pub distance: Distance,
    pub system: System,
    pub rounds: usize,
    /// Median over the rounds.
    pub frames_per_second: f64,
    /// To testpmd; none of testpmd itself.
    pub ratio: Option<RatioEstimate>,
    pub goal: Option<Goal>,
    /// To Open vSwitch that learns; where ours learns too.
    pub to_ovs: Option<(RatioEstimate, Option<Goal>)>,
    pub busy_ns_per_frame: Option<f64>,
    /// To testpmd's.
    pub busy_ratio: Option<f64>,
    pub busy_goal: Option<Goal>,
    pub device_idle: Option<f64>,
    pub driver_idle: Option<f64>,
    /// Rate over the rate that the bound allows.
    pub of_bound: Option<f64>,
    /// Time that the bound takes for a frame over the switch's: what its rate would be of the bound if it never
    /// waited for the driver.
    pub busy_of_bound: Option<f64>,
    /// Trials that count though they were disturbed.
    pub noisy: usize,
}

impl Row {
    pub fn bottleneck(&self) -> Bottleneck {
        Bottleneck::of(self.device_idle, self.driver_idle)
    }

    /// The goals that this row has, with what they are of and how it stands to them.
    pub fn goals(&self) -> Vec<(&'static str, f64, Goal, Reached)> {
        let judged = |name, value: Option<f64>, goal: Option<Goal>| {
            let (value, goal) = (value?, goal?);
            Some((name, value, goal, Reached::of(value, goal)))
        };
        let bound = (self.system.is_ours() && self.cell.frame_bytes == 64).then_some(BOUND_GOAL);
        // Where the driver is at its limit the rate is the driver's.
        let of_bound = match self.bottleneck() {
            Bottleneck::Driver => self.busy_of_bound.or(self.of_bound),
            _ => self.of_bound,
        };
        [
            judged("rate", self.ratio.map(|ratio| ratio.ratio), self.goal),
            judged("OVS", self.to_ovs.map(|(ratio, _)| ratio.ratio), self.to_ovs.and_then(|(_, goal)| goal)),
            judged("busy", self.busy_ratio, self.busy_goal),
            judged("bound", of_bound, bound),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// All rows of a topology and a driver, what matters first: small and large frames before those between.
pub fn rows(results: &Results, driver: DriverKind, topology: Topology) -> Vec<Row> {
    let of_table = |trial: &&Trial| trial.cell.driver == driver && trial.cell.topology == topology;
    let trials = results.trials.iter().filter(of_table).filter(|trial| trial.verdict.counts());
    let distances = Distances::of(results);
    let mut groups: BTreeMap<(Cell, Distance), BySystem<'_>> = BTreeMap::new();
    for trial in trials {
        // Where there are no rings, nothing travels.
        let distance = match trial.cell.link {
            Link::Ring(_) => distances.in_trial(trial),
            Link::Tap(_) => Some(Distance::Same),
        };
        let Some(distance) = distance else { continue };
        groups.entry((trial.cell, distance)).or_default().entry(trial.system).or_default().push(trial);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((cell, distance), _)| {
        (!has_goals(cell.frame_bytes), cell.frame_bytes, cell.link, *distance)
    });
    let of_group = |((cell, distance), of_system): &((Cell, Distance), BySystem<'_>)| -> Vec<Row> {
        of_system.keys().map(|system| row(results, *cell, *distance, *system, of_system)).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

type BySystem<'a> = BTreeMap<System, Vec<&'a Trial>>;

fn row(results: &Results, cell: Cell, distance: Distance, system: System, of_system: &BySystem<'_>) -> Row {
    let own = &of_system[&system];
    let to = |base: System| {
        let base = of_system.get(&base).filter(|_| base != system)?;
        ratio(&blocks(base, own))
    };
    let frames_per_second =
        median(&own.iter().map(|t| t.frames_per_second).collect::<Vec<_>>()).unwrap_or(0.0);
    let middle = |trials: &[&Trial], of: &dyn Fn(&Trial) -> Option<f64>| {
        median(&trials.iter().filter_map(|trial| of(trial)).collect::<Vec<_>>())
    };
    let busy = |trials: &[&Trial]| middle(trials, &|t| t.device.busy_ns_per_frame);
    let idle = |side: fn(&Trial) -> UsageRecord| middle(own, &|t| side(t).idle_share);
    let busy_ns_per_frame = busy(own);
    let peer_busy = of_system.get(&System::Testpmd).filter(|_| system != System::Testpmd);
    let busy_ratio = match (busy_ns_per_frame, peer_busy.and_then(|trials| busy(trials))) {
        (Some(own), Some(peer)) if peer > 0.0 => Some(own / peer),
        _ => None,
    };
    // The kernel's bridge has none: it works on the driver's own core, and nothing travels. What a line costs
    // changes from one moment to the next, so each trial stands beside the bound of its round.
    let to_bound = |of: &dyn Fn(&Trial, f64) -> Option<f64>| {
        let bound_of = |trial: &Trial| {
            let mut same = results.bounds.iter().filter(|b| b.cell == cell && b.round == trial.round);
            same.next().map(|bound| bound.frames_per_second).filter(|bound| *bound > 0.0)
        };
        middle(own, &|trial| of(trial, bound_of(trial)?))
    };
    let ovs = (system == System::TautlineLearning).then_some(System::OvsLearning);
    Row {
        cell,
        distance,
        system,
        rounds: own.len(),
        frames_per_second,
        ratio: to(System::Testpmd),
        goal: goal(&cell, system, System::Testpmd),
        to_ovs: ovs.and_then(|base| Some((to(base)?, goal(&cell, system, base)))),
        busy_ns_per_frame,
        busy_ratio,
        busy_goal: busy_goal(&cell, system),
        device_idle: idle(|t| t.device),
        driver_idle: idle(|t| t.driver),
        of_bound: to_bound(&|trial, bound| Some(trial.frames_per_second / bound)),
        busy_of_bound: to_bound(&|trial, bound| Some(1e9 / bound / trial.device.busy_ns_per_frame?)),
        noisy: own.iter().filter(|t| !matches!(t.verdict, measure::Verdict::Accepted)).count(),
    }
}

/// Rounds are the blocks: within one the systems were measured a moment apart.
fn blocks(base: &[&Trial], other: &[&Trial]) -> Vec<Block> {
    let rounds: BTreeSet<u32> = base.iter().chain(other).map(|trial| trial.round).collect();
    let of = |trials: &[&Trial], round: u32| -> Vec<f64> {
        trials.iter().filter(|t| t.round == round).map(|t| t.frames_per_second).collect()
    };
    rounds.into_iter().map(|round| Block { base: of(base, round), other: of(other, round) }).collect()
}

/// The kernel's bridge, and what our wire moves at the same sizes for the same driver on the ring where it is
/// slowest. They were not measured in turns, and the bridge's driver is another: no ratio with an interval.
pub fn floor(results: &Results) -> Vec<(Row, Option<f64>)> {
    let of_driver = |driver| {
        let rows = rows(results, driver, Topology::Vm2vm);
        // The bridge has no second core that could be far.
        let nearest =
            rows.iter().filter(|row| row.system == System::TautlineWire).map(|row| row.distance).min();
        let wire_fps = |frame_bytes: u16| {
            let is_same = |row: &&Row| row.cell.frame_bytes == frame_bytes && Some(row.distance) == nearest;
            let same = rows.iter().filter(is_same);
            same.filter(|row| row.system == System::TautlineWire)
                .map(|row| row.frames_per_second)
                .reduce(f64::min)
        };
        let bridge = rows.iter().filter(|row| row.system == System::KernelBridge);
        bridge.map(|row| (row.clone(), wire_fps(row.cell.frame_bytes))).collect::<Vec<_>>()
    };
    let mut rows = [of_driver(DriverKind::Dpdk), of_driver(DriverKind::Tautline)].concat();
    rows.sort_by_key(|(row, _)| row.cell.frame_bytes);
    rows
}

/// Zero loss beside maximum.
pub struct ZeroLossRow<'a> {
    pub found: &'a ZeroLoss,
    /// Over all lanes; none where nothing passed.
    pub frames_per_second: Option<f64>,
    /// It may be more: the generator went no higher, or the search was cut short.
    pub at_least: bool,
}

impl ZeroLossRow<'_> {
    pub fn of_maximum(&self) -> Option<f64> {
        Some(self.frames_per_second? / Some(self.found.maximum_fps).filter(|fps| *fps > 0.0)?)
    }

    pub fn reached(&self) -> Option<Reached> {
        let own = self.found.system.is_ours();
        self.of_maximum().filter(|_| own).map(|share| Reached::of(share, ZERO_LOSS_GOAL))
    }
}

pub fn zero_loss(results: &Results) -> Vec<ZeroLossRow<'_>> {
    let mut rows: Vec<ZeroLossRow<'_>> = results.zero_loss.iter().map(zero_loss_row).collect();
    rows.sort_by_key(|row| (row.found.cell.frame_bytes, row.found.cell, row.found.system));
    rows
}

fn zero_loss_row(found: &ZeroLoss) -> ZeroLossRow<'_> {
    let (lower, at_least) = match &found.search.finding {
        Finding::Bracketed { lower, .. } => (Some(lower), false),
        Finding::AtMaximum { lower } => (Some(lower), true),
        Finding::Undecided { lower, .. } => (lower.as_ref(), true),
        Finding::BelowMinimum { .. } => (None, false),
    };
    let frames_per_second = lower.map(|load| load.frames_per_second() as f64 * f64::from(found.lanes));
    ZeroLossRow { found, frames_per_second, at_least }
}

/// Trials that were thrown away, and those that count though they were disturbed.
pub fn repeats(results: &Results) -> (usize, usize) {
    let count = |of: fn(&measure::Verdict) -> bool| results.trials.iter().filter(|t| of(&t.verdict)).count();
    (
        count(|verdict| matches!(verdict, measure::Verdict::Discarded(_))),
        count(|verdict| matches!(verdict, measure::Verdict::KeptNoisy(_))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::BUSY_GOAL;

    #[test]
    fn the_side_that_waits_less_is_the_bottleneck() {
        assert_eq!(Bottleneck::of(Some(0.02), Some(0.4)), Bottleneck::Switch);
        assert_eq!(Bottleneck::of(Some(0.4), Some(0.02)), Bottleneck::Driver);
        assert_eq!(Bottleneck::of(Some(0.04), Some(0.02)), Bottleneck::Both);
        assert_eq!(Bottleneck::of(None, Some(0.02)), Bottleneck::Unknown);
    }

    #[test]
    fn goals_go_both_ways() {
        let rate = Goal { floor: 1.15, target: 1.5 };
        assert_eq!(
            [1.1, 1.2, 1.5].map(|v| Reached::of(v, rate)),
            [Reached::Missed, Reached::Floor, Reached::Target]
        );
        assert_eq!(
            [0.9, 0.8, 0.5].map(|v| Reached::of(v, BUSY_GOAL)),
            [Reached::Missed, Reached::Floor, Reached::Target]
        );
    }
}
