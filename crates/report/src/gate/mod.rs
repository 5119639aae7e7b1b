//! Limits that a user sets on a run: held, failed, or not measured, which counts as failed.
//!
//! A gate is a TOML file:
//!
//! ```toml
//! [[limit]]
//! metric = "os.*"            # a metric's name, or a pattern with `*`
//! environment = "container"  # may be left out: then every environment
//! max_slowdown = 1.5         # against the base environment
//!
//! [[limit]]
//! metric = "wakeup.idle"
//! statistic = "p99"          # median (if left out), p99, p999, max; missed counts events
//! max = 50000                # or `min`; in the metric's unit, here ns
//!
//! [[limit]]
//! metric = "*"
//! environment = "host-2"
//! no_difference = 0.005      # from the base, beyond what chance explains; fails by chance in at most 0.5 % of runs
//! ```
//!
//! **The rule is the point estimate.** A slowdown limit fails when the measured ratio exceeds it, even if
//! the low end of its interval does not. Judging by the low end would let a limit be held by measuring badly:
//! the fewer the starts and the louder the machine, the wider the interval and the easier the pass. A gate
//! must not reward noise, so the interval is shown with the outcome and does not excuse it.
//!
//! `no_difference` is about all the metrics that it names together: some of them are found to differ by chance, and
//! [`measure::label_exchange`] says whether more are than chance explains.
//!
//! A limit that no metric or environment of the run matches counts as failed: a gate that checks nothing is a
//! spelling mistake, not a success.

mod evaluate;
mod figures;
pub(crate) mod glob;
mod parse;

use std::fmt;

use measure::Unit;
use measure::compare::Analysis;
use measure::label_exchange::LabelExchange;

pub use figures::Figure;
pub use parse::GateError;

use crate::{EMULATED_MARK, units};

/// A user's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    limits: Vec<Limit>,
}

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The metric's name, or a pattern with `*`.
    pub metric: String,
    /// The environment's name; all of them where none is given.
    pub environment: Option<String>,
    /// What is limited.
    pub bound: Bound,
}

/// What is limited, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The slowdown against the base environment.
    MaxSlowdown(f64),
    /// A statistic, not to be exceeded, in the metric's unit.
    Max(Statistic, f64),
    /// A statistic, not to be fallen short of, in the metric's unit.
    Min(Statistic, f64),
    /// No more differences from the base than chance explains, at this significance.
    NoDifference(f64),
}

/// What of a metric is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The median over the trials' values; of a distribution, over all its samples.
    Median,
    /// The 99th percentile of a distribution.
    P99,
    /// The 99.9th percentile of a distribution.
    P999,
    /// The observed maximum of a distribution.
    Max,
    /// Events missed, a count.
    Missed,
}

/// What became of a limit for one metric in one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    /// The limit.
    pub limit: Limit,
    /// The metric's name, or the limit's pattern where nothing matched it.
    pub metric: String,
    /// The environment's name, where one was found.
    pub environment: Option<String>,
    /// The unit of the figure; none for slowdowns and counts.
    pub unit: Option<Unit>,
    /// Whether the figure is of an emulated CPU.
    pub emulated: bool,
    /// The outcome.
    pub verdict: GateVerdict,
}

/// Held or not.
#[derive(Clone, Debug, PartialEq)]
pub enum GateVerdict {
    /// The figure is within the limit.
    Held {
        /// The figure.
        figure: f64,
        /// Its interval, of slowdowns.
        interval: Option<(f64, f64)>,
    },
    /// The figure is not within the limit.
    Failed {
        /// The figure.
        figure: f64,
        /// Its interval, of slowdowns.
        interval: Option<(f64, f64)>,
    },
    /// How the metrics together differ from the base, and whether by no more than chance.
    Differences(LabelExchange, bool),
    /// There is no figure, and why: counts as failed.
    NotMeasured(String),
}

impl Gate {
    /// Reads a gate file's text.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        parse::parse(text)
    }

    /// The limits in the order of the file.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Holds a run against the limits: at least one outcome for each.
    pub fn evaluate(&self, results: &measure::Results, analysis: &Analysis) -> Vec<GateOutcome> {
        self.limits.iter().flat_map(|limit| evaluate::limit(limit, results, analysis)).collect()
    }

    /// Holds the figures of a run without environments against the limits: at least one outcome for each.
    pub fn evaluate_figures(&self, figures: &[Figure]) -> Vec<GateOutcome> {
        self.limits.iter().flat_map(|limit| figures::limit(limit, figures)).collect()
    }
}

impl GateOutcome {
    /// Whether the limit was held.
    pub fn held(&self) -> bool {
        matches!(self.verdict, GateVerdict::Held { .. } | GateVerdict::Differences(_, true))
    }

    fn figure(&self, figure: f64) -> String {
        match (&self.limit.bound, &self.unit) {
            (Bound::MaxSlowdown(_), _) => units::factor(figure),
            (Bound::NoDifference(_), _) => percent(figure),
            (_, Some(unit)) => units::value(figure, unit),
            (_, None) => format!("{figure}"),
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Statistic::Median => "median",
            Statistic::P99 => "p99",
            Statistic::P999 => "p99.9",
            Statistic::Max => "maximum",
            Statistic::Missed => "missed events",
        })
    }
}

fn percent(share: f64) -> String {
    format!("{} %", units::significant(share * 100.0))
}

impl fmt::Display for GateOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, side, bound) = match self.limit.bound {
            Bound::MaxSlowdown(bound) => ("slowdown".to_owned(), "at most", bound),
            Bound::Max(statistic, bound) => (statistic.to_string(), "at most", bound),
            Bound::Min(statistic, bound) => (statistic.to_string(), "at least", bound),
            Bound::NoDifference(bound) => ("no difference".to_owned(), "significance", bound),
        };
        let place = self.environment.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        let mark = if self.emulated { EMULATED_MARK } else { "" };
        let (verdict, figure) = match &self.verdict {
            GateVerdict::Held { figure, interval } => ("held", (figure, interval)),
            GateVerdict::Failed { figure, interval } => ("FAILED", (figure, interval)),
            GateVerdict::Differences(found, held) => {
                let LabelExchange { metrics, differing, expected, p_value, .. } = found;
                return write!(
                    f,
                    "{}: {differing} of {metrics} metrics of {}{place} differ{mark}, by chance about {expected:.1}; \
                     chance makes as much difference in {} of runs, limit more than {} %",
                    if *held { "held" } else { "FAILED" },
                    self.metric,
                    percent(*p_value),
                    bound * 100.0
                );
            }
            GateVerdict::NotMeasured(why) => {
                let bound = self.figure(bound);
                return write!(
                    f,
                    "FAILED: {what} of {}{place}, limit {side} {bound}: not measured: {why}",
                    self.metric
                );
            }
        };
        let interval = figure.1.map(|interval| format!(" {}", units::interval(interval))).unwrap_or_default();
        write!(
            f,
            "{verdict}: {what} of {}{place} is {}{mark}{interval}, limit {side} {}",
            self.metric,
            self.figure(*figure.0),
            self.figure(bound)
        )
    }
}
