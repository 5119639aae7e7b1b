//! Checks limits on figures, which are read from a file; the tables contain no requirements.
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::cell::{Cell, DriverKind, System, Topology, name};
use crate::figures::rows;
use crate::results::Results;

/// A file of limits; `crates/bench-peers/gate.toml` explains them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Figures from fewer rounds are not judged.
    min_rounds: usize,
    limit: Vec<Limit>,
}

/// Which figures are limited, and their limit. A field that is left out matches any value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    figure: Kind,
    driver: Option<DriverKind>,
    topology: Option<Topology>,
    sizes: Option<Vec<u16>>,
    packed: Option<bool>,
    system: Option<System>,
    peer: Option<System>,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// The rate divided by the peer's.
    Rate,
    /// The busy time for a frame divided by the peer's.
    Busy,
    /// The throughput divided by the maximum.
    ZeroLoss,
    /// The fraction of the cache-transfer limit.
    CacheTransfer,
}

/// One figure of a run.
struct Figure {
    kind: Kind,
    cell: Cell,
    system: System,
    peer: Option<System>,
    rounds: usize,
    value: f64,
    /// Whether the true value may be higher, so that it cannot miss a `min`.
    at_least: bool,
}

impl Gate {
    /// Reads a file of limits.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML of this form, or sets no limit; or a limit has neither `min` nor `max`,
    /// both, or a number that is not finite.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Gate::parse(&text).with_context(|| format!("the gate file {}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let gate: Gate = toml::from_str(text)?;
        ensure!(!gate.limit.is_empty(), "it sets no limit: write at least one [[limit]] table");
        for (at, limit) in gate.limit.iter().enumerate() {
            match (limit.min, limit.max) {
                (Some(value), None) | (None, Some(value)) => {
                    ensure!(value.is_finite(), "[[limit]] {}: the limit is not a finite number", at + 1);
                }
                _ => bail!("[[limit]] {} ({:?}): write one of min and max", at + 1, limit.figure),
            }
        }
        Ok(gate)
    }

    /// A line for each figure and limit that it misses, and a last line with the number of judged figures.
    pub fn judge(&self, results: &Results) -> (Vec<String>, String) {
        let figures = figures(results);
        let is_of = |limit: &Limit, figure: &Figure| figure.rounds >= self.min_rounds && limit.is_of(figure);
        let of = |limit| figures.iter().filter(move |figure| is_of(limit, figure));
        let judged: usize = self.limit.iter().map(|limit| of(limit).count()).sum();
        let unused = self.limit.iter().filter(|limit| of(limit).next().is_none()).count();
        let missed = self.limit.iter().flat_map(|limit| of(limit).filter_map(|figure| limit.missed(figure)));
        let missed: Vec<String> = missed.collect();
        let summary = format!(
            "Gate: {judged} figures of {} and more rounds judged, {} missed a limit; {unused} of {} limits had no figure.",
            self.min_rounds,
            missed.len(),
            self.limit.len()
        );
        (missed, summary)
    }
}

impl Limit {
    fn is_of(&self, figure: &Figure) -> bool {
        let Some(path) = figure.cell.path else { return false };
        figure.kind == self.figure
            && self.driver.is_none_or(|driver| driver == figure.cell.driver)
            && self.topology.is_none_or(|topology| topology == figure.cell.topology)
            && self.sizes.as_ref().is_none_or(|sizes| sizes.contains(&figure.cell.frame_bytes))
            && self.packed.is_none_or(|packed| packed == path.is_packed())
            && self.system.is_none_or(|system| system == figure.system)
            && self.peer.is_none_or(|peer| Some(peer) == figure.peer)
    }

    fn missed(&self, figure: &Figure) -> Option<String> {
        let (word, limit) = match (self.min, self.max) {
            (Some(min), _) if figure.value < min && !figure.at_least => ("at least", min),
            (_, Some(max)) if figure.value > max => ("at most", max),
            _ => return None,
        };
        let Figure { kind, cell, system, peer, value, .. } = figure;
        let over = peer.map_or(String::new(), |peer| format!(" over {}", name(&peer)));
        let system = name(system);
        Some(format!("missed: {cell}: {kind:?} of {system}{over} is {value:.2}, {word} {limit} is wanted"))
    }
}

fn figures(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    let drivers = [DriverKind::Dpdk, DriverKind::Tautline];
    let all = drivers.into_iter().flat_map(|driver| {
        results.plan.topologies.iter().flat_map(move |topology| rows(results, driver, *topology))
    });
    for row in all.filter(|row| !row.system.peers().is_empty()) {
        let (cell, system, rounds) = (row.cell, row.system, row.rounds);
        let figure = |kind, peer, value| Figure { kind, cell, system, peer, rounds, value, at_least: false };
        for against in &row.against {
            figures.push(figure(Kind::Rate, Some(against.peer), against.rate.ratio));
            figures.extend(against.busy.map(|busy| figure(Kind::Busy, Some(against.peer), busy)));
        }
        // If the driver is the limit, the rate is the driver's.
        let of_limit = match row.limited_by() {
            "driver" => row.busy_of_limit.or(row.of_limit),
            _ => row.of_limit,
        };
        figures.extend(of_limit.map(|value| figure(Kind::CacheTransfer, None, value)));
    }
    for row in results.zero_loss.iter().filter(|row| !row.system.peers().is_empty()) {
        let (cell, system, at_least) = (row.cell, row.system, row.throughput().1);
        let (kind, peer, rounds) = (Kind::ZeroLoss, None, usize::MAX);
        let figure = |value| Figure { kind, cell, system, peer, rounds, value, at_least };
        figures.extend(row.of_maximum().map(figure));
    }
    figures
}
