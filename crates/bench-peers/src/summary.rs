//! From trials to figures: medians, ratios with intervals, and which side was the bottleneck.
use std::collections::{BTreeMap, BTreeSet};

use measure::bootstrap::{Block, RatioEstimate, ratio};
use measure::statistics::median;
use traffic::search::Finding;

use crate::cell::{Cell, DriverKind, Link, System, Topology, is_headline};
use crate::latency_class::{Classes, LatencyClass};
use crate::records::{Results, Trial, UsageRecord, ZeroLoss};

/// Idle shares closer than this say that both sides were at their limit.
const EQUAL_IDLE: f64 = 0.05;

/// Which side limits the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    Device,
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
            Bottleneck::Device
        } else {
            Bottleneck::Driver
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Bottleneck::Device => "device",
            Bottleneck::Driver => "driver",
            Bottleneck::Both => "both",
            Bottleneck::Unknown => "?",
        }
    }
}

/// One system in one cell, in the rounds of one latency class.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: Cell,
    pub class: LatencyClass,
    pub system: System,
    pub rounds: usize,
    /// Of the systems, in which these rounds were.
    pub starts: usize,
    /// Median over the rounds.
    pub frames_per_second: f64,
    /// Of ours, to each peer that does the same work.
    pub against: Vec<Against>,
    pub busy_ns_per_frame: Option<f64>,
    pub device_idle: Option<f64>,
    pub driver_idle: Option<f64>,
    /// Rate over the rate that the cache-transfer limit allows.
    pub of_limit: Option<f64>,
    /// Time that the limit takes for a frame over the switch's: what its rate would be of the limit if it never waited
    /// for the driver.
    pub busy_of_limit: Option<f64>,
    /// Trials that count though they were disturbed.
    pub noisy: usize,
}

/// One of ours beside a peer.
#[derive(Clone, Debug)]
pub struct Against {
    pub peer: System,
    /// Rate over the peer's. Rounds of one start share it: the interval says nothing of what another start would change.
    pub rate: RatioEstimate,
    /// The same of each start alone, where several have both.
    pub by_start: Vec<f64>,
    /// Busy time for a frame over the peer's.
    pub busy: Option<f64>,
}

impl Row {
    pub fn bottleneck(&self) -> Bottleneck {
        Bottleneck::of(self.device_idle, self.driver_idle)
    }

    pub fn against(&self, peer: System) -> Option<&Against> {
        self.against.iter().find(|against| against.peer == peer)
    }
}

/// All rows of a topology and a driver, what matters first: small and large frames before those between.
pub fn rows(results: &Results, driver: DriverKind, topology: Topology) -> Vec<Row> {
    let of_table = |trial: &&Trial| trial.cell.driver == driver && trial.cell.topology == topology;
    let trials = results.trials.iter().filter(of_table).filter(|trial| trial.verdict.counts());
    let classes = Classes::of(results);
    let mut groups: BTreeMap<(Cell, LatencyClass), BySystem<'_>> = BTreeMap::new();
    for trial in trials {
        // Where there are no rings, nothing travels.
        let class = match trial.cell.link {
            Link::Ring(_) => classes.in_trial(trial),
            Link::Tap(_) => Some(LatencyClass::Same),
        };
        let Some(class) = class else { continue };
        groups.entry((trial.cell, class)).or_default().entry(trial.system).or_default().push(trial);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((cell, class), _)| {
        (!is_headline(cell.frame_bytes), cell.frame_bytes, cell.link, *class)
    });
    let of_group = |((cell, class), of_system): &((Cell, LatencyClass), BySystem<'_>)| -> Vec<Row> {
        of_system.keys().map(|system| row(results, *cell, *class, *system, of_system)).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

type BySystem<'a> = BTreeMap<System, Vec<&'a Trial>>;

fn row(results: &Results, cell: Cell, class: LatencyClass, system: System, of_system: &BySystem<'_>) -> Row {
    let own = &of_system[&system];
    let middle = |trials: &[&Trial], of: &dyn Fn(&Trial) -> Option<f64>| {
        median(&trials.iter().filter_map(|trial| of(trial)).collect::<Vec<_>>())
    };
    let busy = |trials: &[&Trial]| middle(trials, &|t| t.device.busy_ns_per_frame);
    let idle = |side: fn(&Trial) -> UsageRecord| middle(own, &|t| side(t).idle_share);
    let starts: BTreeSet<u32> = own.iter().map(|trial| trial.start).collect();
    let against = |peer: &System| {
        let base = of_system.get(peer)?;
        let blocks = blocks(base, own);
        let in_start = |start: &u32| {
            let same = blocks.iter().filter(|(of, _)| of == start);
            Some(ratio(&same.map(|(_, block)| block.clone()).collect::<Vec<_>>())?.ratio)
        };
        let by_start: Vec<f64> = starts.iter().filter_map(in_start).collect();
        Some(Against {
            peer: *peer,
            by_start: if by_start.len() > 1 { by_start } else { Vec::new() },
            rate: ratio(&blocks.into_iter().map(|(_, block)| block).collect::<Vec<_>>())?,
            busy: busy(own).zip(busy(base).filter(|busy| *busy > 0.0)).map(|(own, base)| own / base),
        })
    };
    // The kernel's bridge has none: it works on the driver's own core, and nothing travels. What a line costs
    // changes from one moment to the next, so each trial stands beside the limit of its round.
    let to_limit = |of: &dyn Fn(&Trial, f64) -> Option<f64>| {
        let limit_of = |trial: &Trial| {
            let mut same =
                results.cache_transfer_limits.iter().filter(|l| l.cell == cell && l.round == trial.round);
            same.next().map(|limit| limit.frames_per_second).filter(|limit| *limit > 0.0)
        };
        middle(own, &|trial| of(trial, limit_of(trial)?))
    };
    Row {
        cell,
        class,
        system,
        rounds: own.len(),
        starts: starts.len(),
        frames_per_second: middle(own, &|t| Some(t.frames_per_second)).unwrap_or(0.0),
        against: system.peers().iter().filter_map(against).collect(),
        busy_ns_per_frame: busy(own),
        device_idle: idle(|t| t.device),
        driver_idle: idle(|t| t.driver),
        of_limit: to_limit(&|trial, limit| Some(trial.frames_per_second / limit)),
        busy_of_limit: to_limit(&|trial, limit| Some(1e9 / limit / trial.device.busy_ns_per_frame?)),
        noisy: own.iter().filter(|t| !matches!(t.verdict, measure::Verdict::Accepted)).count(),
    }
}

/// Rounds are the blocks, each with its start: within one the systems were measured a moment apart.
fn blocks(base: &[&Trial], other: &[&Trial]) -> Vec<(u32, Block)> {
    let rounds: BTreeSet<(u32, u32)> =
        base.iter().chain(other).map(|trial| (trial.start, trial.round)).collect();
    let of = |trials: &[&Trial], round: u32| -> Vec<f64> {
        trials.iter().filter(|t| t.round == round).map(|t| t.frames_per_second).collect()
    };
    let block = |(start, round)| (start, Block { base: of(base, round), other: of(other, round) });
    rounds.into_iter().map(block).collect()
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

    #[test]
    fn the_side_that_waits_less_is_the_bottleneck() {
        assert_eq!(Bottleneck::of(Some(0.02), Some(0.4)), Bottleneck::Device);
        assert_eq!(Bottleneck::of(Some(0.4), Some(0.02)), Bottleneck::Driver);
        assert_eq!(Bottleneck::of(Some(0.04), Some(0.02)), Bottleneck::Both);
        assert_eq!(Bottleneck::of(None, Some(0.02)), Bottleneck::Unknown);
    }
}
