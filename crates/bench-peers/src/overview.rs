//! The whole run in at most ten rows: rate and busy time per frame beside DPDK and Open vSwitch.
use std::cmp::Reverse;

use crate::cell::{Cell, DriverKind, Link, RingPath, System, Topology};
use crate::records::Results;
use crate::summary::{Row, rows};

/// One row: the systems of a cell in one latency class.
pub struct Line {
    /// What is held against DPDK: the wire, or the port alone.
    pub own: Row,
    pub testpmd: Option<Row>,
    /// Those that learn addresses; where there are two ports.
    pub learning: Option<Row>,
    pub ovs: Option<Row>,
}

/// The smallest frames everywhere, and the largest between two ports; a split ring and a packed one. Where a cell was
/// measured in two latency classes, the one with more rounds.
pub fn lines(results: &Results) -> Vec<Line> {
    Topology::ALL.iter().flat_map(|topology| of_topology(results, *topology)).collect()
}

fn of_topology(results: &Results, topology: Topology) -> Vec<Line> {
    let mut rows = rows(results, DriverKind::Dpdk, topology);
    rows.retain(|row| matches!(row.cell.link, Link::Ring(_)));
    let mut cells: Vec<Cell> = rows.iter().map(|row| row.cell).collect();
    let sizes = || cells.iter().map(|cell| cell.frame_bytes);
    let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { return Vec::new() };
    let paths = [false, true].map(|packed| first_path(&cells, packed).map(Link::Ring));
    cells.retain(|cell| {
        let size = cell.frame_bytes == least || topology == Topology::Vm2vm && cell.frame_bytes == most;
        size && paths.contains(&Some(cell.link))
    });
    cells.sort_by_key(|cell| (cell.frame_bytes, paths.iter().position(|path| *path == Some(cell.link))));
    cells.dedup();
    cells.iter().filter_map(|cell| line(&rows, cell)).collect()
}

/// Of the paths of a layout that were measured, the one that comes first in a run: the one that drivers choose.
fn first_path(cells: &[Cell], packed: bool) -> Option<RingPath> {
    let is_there = |path: &RingPath| cells.iter().any(|cell| cell.link == Link::Ring(*path));
    RingPath::ALL.into_iter().filter(|path| path.is_packed() == packed).find(is_there)
}

fn line(rows: &[Row], cell: &Cell) -> Option<Line> {
    let ours = [System::TautlineWire, System::TautlinePort];
    let of_cell = || rows.iter().filter(|row| row.cell == *cell);
    // Rounds in which both were measured.
    let both = |row: &Row| row.against(System::Testpmd).map_or(0, |against| against.rate.blocks);
    let own = of_cell().filter(|row| ours.contains(&row.system));
    let own = own.max_by_key(|row| (both(row), row.rounds, Reverse(row.class)))?;
    let beside = |system| of_cell().find(|row| row.system == system && row.class == own.class).cloned();
    Some(Line {
        testpmd: beside(System::Testpmd),
        learning: beside(System::TautlineLearning),
        ovs: beside(System::OvsLearning),
        own: own.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Trial, results_for_tests, trial_for_tests};

    /// Every cell of a whole run.
    fn whole_run(line_ns: impl Fn(u32) -> f64) -> Results {
        let mut results = results_for_tests();
        for path in RingPath::ALL {
            for topology in Topology::ALL {
                for frame_bytes in [64, 128, 1518] {
                    for (system, round) in
                        System::of(topology).iter().flat_map(|s| (0..8).map(move |r| (*s, r)))
                    {
                        let link = Link::Ring(path);
                        let fps = if system.is_ours() { 12e6 } else { 8e6 };
                        let cell = Cell { driver: DriverKind::Dpdk, topology, link, frame_bytes };
                        results.trials.push(Trial {
                            cell,
                            round,
                            start: round / 4,
                            line_ns: [line_ns(round); 2],
                            ..trial_for_tests(link, system, fps)
                        });
                    }
                }
            }
        }
        results
    }

    #[test]
    fn a_whole_run_has_ten_rows() {
        let found = lines(&whole_run(|_| 30.0));
        let named: Vec<_> = found.iter().map(|line| line.own.cell.to_string()).collect();
        assert_eq!(
            named,
            [
                "VM2VM, split, 64 B",
                "VM2VM, packed in-order, 64 B",
                "VM2VM, split, 1518 B",
                "VM2VM, packed in-order, 1518 B",
                "loop with MAC forwarding, split, 64 B",
                "loop with MAC forwarding, packed in-order, 64 B",
                "guest to host, split, 64 B",
                "guest to host, packed in-order, 64 B",
                "host to guest, split, 64 B",
                "host to guest, packed in-order, 64 B",
            ]
        );
        let first = &found[0];
        let rate = first.own.against(System::Testpmd).unwrap();
        let rounded = |ratio: f64| (ratio * 100.0).round() as u32;
        assert_eq!((rounded(rate.rate.ratio), rate.rate.blocks, first.own.starts), (150, 8, 2));
        assert_eq!(rate.by_start.iter().copied().map(rounded).collect::<Vec<_>>(), [150, 150]);
        let learning = first.learning.as_ref().unwrap();
        assert!(
            learning.against(System::OvsLearning).is_some() && learning.against(System::Testpmd).is_none()
        );
        assert!(found[4].ovs.is_none() && found[4].learning.is_none());
    }

    #[test]
    fn of_two_latency_classes_the_one_with_more_rounds_is_shown() {
        let found = lines(&whole_run(|round| if round < 3 { 30.0 } else { 130.0 }));
        assert_eq!(found.len(), 10);
        assert!(found.iter().all(|line| line.own.rounds == 5 && line.own.class.name() == "high"));
        assert!(found.iter().all(|line| line.testpmd.as_ref().unwrap().class.name() == "high"));
        let found = lines(&whole_run(|round| if round < 4 { 130.0 } else { 30.0 }));
        assert!(found.iter().all(|line| line.own.class.name() == "low"), "as many of each");
    }
}
