//! Limits on what was found, from a file: what somebody wants of the figures stands there, and not in the tables.
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::cell::{Cell, DriverKind, Link, System, Topology};
use crate::records::Results;
use crate::summary::{Bottleneck, rows, zero_loss};

/// A file of limits; `crates/bench-peers/gate.toml` explains them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// Figures of fewer rounds are not judged.
    min_rounds: usize,
    limit: Vec<Limit>,
}

/// Of which figures, and what they must be. What is left out is any.
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
    /// Rate over the peer's.
    Rate,
    /// Busy time for a frame over the peer's.
    Busy,
    /// Rate without loss over the maximum.
    ZeroLoss,
    /// Share of the cache-transfer limit.
    CacheTransfer,
}

/// One figure of a run.
struct Figure {
    kind: Kind,
    cell: Cell,
    system: System,
    peer: Option<System>,
    /// None where there is no such number.
    rounds: Option<usize>,
    class: &'static str,
    value: f64,
    /// It may be more, so it misses no least.
    is_least: bool,
}

/// How a run stands to the limits.
pub struct Judgement {
    /// A line for each figure and limit that it misses.
    pub missed: Vec<String>,
    /// How much was judged, and what could not be.
    pub summary: String,
}

impl Gate {
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Gate::parse(&text).with_context(|| format!("the gate file {}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let gate: Gate = toml::from_str(text)?;
        ensure!(!gate.limit.is_empty(), "it sets no limit: write at least one [[limit]] table");
        for (at, limit) in gate.limit.iter().enumerate() {
            let at = at + 1;
            match limit.min.or(limit.max) {
                Some(value) if limit.min.is_none() || limit.max.is_none() => {
                    ensure!(value.is_finite(), "[[limit]] {at}: the limit is not a finite number");
                }
                _ => bail!("[[limit]] {at} ({:?}): write one of min and max", limit.figure),
            }
        }
        Ok(gate)
    }

    pub fn judge(&self, results: &Results) -> Judgement {
        let (enough, few): (Vec<Figure>, Vec<Figure>) = figures(results)
            .into_iter()
            .partition(|f| f.rounds.is_none_or(|rounds| rounds >= self.min_rounds));
        let pages = if results.plan.huge_pages { "2 MiB pages" } else { "4 KiB pages" };
        let (mut missed, mut judged, mut unused) = (Vec::new(), 0, 0);
        for limit in &self.limit {
            let before = judged;
            for figure in enough.iter().filter(|figure| limit.is_of(figure)) {
                judged += 1;
                missed.extend(limit.missed(figure).map(|line| format!("{line}, {pages}")));
            }
            unused += usize::from(judged == before);
        }
        let few = few.iter().filter(|figure| self.limit.iter().any(|limit| limit.is_of(figure))).count();
        let summary = format!(
            "Gate, {pages}: {judged} figures judged, {} missed a limit; {few} had fewer than {} rounds, and {unused} \
             of {} limits had no figure.",
            missed.len(),
            self.min_rounds,
            self.limit.len()
        );
        Judgement { missed, summary }
    }
}

impl Limit {
    fn is_of(&self, figure: &Figure) -> bool {
        let Link::Ring(path) = figure.cell.link else { return false };
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
            (Some(min), _) if figure.value < min && !figure.is_least => ("at least", min),
            (_, Some(max)) if figure.value > max => ("at most", max),
            _ => return None,
        };
        let Figure { kind, cell, system, peer, rounds, class, value, .. } = figure;
        let what = match kind {
            Kind::Rate => "rate",
            Kind::Busy => "busy time",
            Kind::ZeroLoss => "zero-loss rate over maximum",
            Kind::CacheTransfer => "share of the cache-transfer limit",
        };
        let over = peer.map_or(String::new(), |peer| format!(" over {}", peer.name()));
        let class = if class.is_empty() { String::new() } else { format!(", {class} core-to-core latency") };
        let rounds = rounds.map_or(String::new(), |rounds| format!(", {rounds} rounds"));
        Some(format!(
            "missed: {cell}, {}: {what} of {}{over} is {value:.2}, {word} {limit} is wanted{class}{rounds}",
            cell.driver.name(),
            system.name(),
        ))
    }
}

fn figures(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    for driver in [DriverKind::Dpdk, DriverKind::Tautline] {
        let all = Topology::ALL.into_iter().flat_map(|topology| rows(results, driver, topology));
        for row in all.filter(|row| row.system.is_ours()) {
            let mut add = |kind, peer, value: Option<f64>| {
                let (cell, system, rounds, class) =
                    (row.cell, row.system, Some(row.rounds), row.class.name());
                figures.extend(value.map(|value| Figure {
                    kind,
                    cell,
                    system,
                    peer,
                    rounds,
                    class,
                    value,
                    is_least: false,
                }));
            };
            for against in &row.against {
                add(Kind::Rate, Some(against.peer), Some(against.rate.ratio));
                add(Kind::Busy, Some(against.peer), against.busy);
            }
            // Where the driver limits, the rate is the driver's.
            let of_limit = match row.bottleneck() {
                Bottleneck::Driver => row.busy_of_limit.or(row.of_limit),
                _ => row.of_limit,
            };
            add(Kind::CacheTransfer, None, of_limit);
        }
    }
    for row in zero_loss(results).iter().filter(|row| row.found.system.is_ours()) {
        let (cell, system) = (row.found.cell, row.found.system);
        let is_least = row.at_least;
        let figure = |value| Figure {
            kind: Kind::ZeroLoss,
            cell,
            system,
            peer: None,
            rounds: None,
            class: "",
            value,
            is_least,
        };
        figures.extend(row.of_maximum().map(figure));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::RingPath;
    use crate::records::{Trial, results_for_tests, trial_for_tests};

    fn results(own: f64, peer: f64) -> Results {
        let link = Link::Ring(RingPath::Split);
        let round = |round| {
            [(System::TautlineWire, own), (System::Testpmd, peer)]
                .map(|(system, fps)| Trial { round, ..trial_for_tests(link, system, fps) })
        };
        Results { trials: (0..4).flat_map(round).collect(), ..results_for_tests() }
    }

    fn judged(limits: &str, results: &Results) -> Judgement {
        Gate::parse(&format!("min_rounds = 3\n{limits}")).unwrap().judge(results)
    }

    #[test]
    fn a_missed_limit_is_one_line_that_names_its_figure() {
        let limits = "[[limit]]\nfigure = \"rate\"\nmin = 1.0\n[[limit]]\nfigure = \"busy\"\nmax = 0.5\n\
                      [[limit]]\nfigure = \"zero-loss\"\nmin = 0.8\n";
        let missed = judged(limits, &results(8e6, 10e6));
        assert_eq!(
            missed.missed,
            [
                "missed: VM2VM, split, 64 B, DPDK driver, payload not touched: rate of tautline switch, wire over \
                 DPDK testpmd is 0.80, at least 1 is wanted, 4 rounds, 2 MiB pages",
                "missed: VM2VM, split, 64 B, DPDK driver, payload not touched: busy time of tautline switch, wire \
                 over DPDK testpmd is 1.00, at most 0.5 is wanted, 4 rounds, 2 MiB pages",
            ]
        );
        assert!(
            missed.summary.contains("2 figures judged, 2 missed") && missed.summary.contains("1 of 3 limits")
        );
        assert!(judged(limits, &results(10e6, 10e6)).missed.len() == 1);
    }

    #[test]
    fn a_limit_is_of_what_it_names_and_few_rounds_are_not_judged() {
        let slow = results(8e6, 10e6);
        let limit =
            |words: &str| judged(&format!("[[limit]]\nfigure = \"rate\"\nmin = 1.0\n{words}\n"), &slow);
        for (words, missed) in [
            ("topology = \"vm2vm\"\npacked = false\nsizes = [64]\npeer = \"testpmd\"", 1),
            ("driver = \"dpdk\"\nsystem = \"tautline-wire\"", 1),
            ("topology = \"loop\"", 0),
            ("packed = true", 0),
            ("sizes = [128, 1518]", 0),
            ("peer = \"ovs-learning\"", 0),
            ("driver = \"tautline\"", 0),
        ] {
            assert_eq!(limit(words).missed.len(), missed, "{words}");
        }
        let mut few = slow.clone();
        few.trials.truncate(4);
        let judged = judged("[[limit]]\nfigure = \"rate\"\nmin = 1.0\n", &few);
        assert!(
            judged.missed.is_empty() && judged.summary.contains("1 had fewer than 3 rounds"),
            "{}",
            judged.summary
        );
    }

    #[test]
    fn a_file_that_limits_nothing_is_refused() {
        for (text, word) in [
            ("min_rounds = 3\nlimit = []", "no limit"),
            ("min_rounds = 3\n[[limit]]\nfigure = \"rate\"", "one of min and max"),
            ("min_rounds = 3\n[[limit]]\nfigure = \"rate\"\nmin = 1.0\nmax = 2.0", "one of min and max"),
            ("min_rounds = 3\n[[limit]]\nfigure = \"rate\"\nmin = nan", "finite"),
            ("min_rounds = 3\n[[limit]]\nfigure = \"speed\"\nmin = 1.0", "speed"),
            ("min_rounds = 3\n[[limit]]\nfigure = \"rate\"\nfloor = 1.0", "floor"),
        ] {
            let error = format!("{:#}", Gate::parse(text).unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
        Gate::parse(include_str!("../gate.toml")).unwrap();
    }
}
