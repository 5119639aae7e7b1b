//! The outcome of a limit.

use std::fmt;

use measure::Unit;
use measure::label_exchange::LabelExchange;

use super::limit::{Bound, Limit};
use crate::{EMULATED_MARK, units};

/// The outcome of a limit for one metric in one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    /// The limit.
    pub limit: Limit,
    /// The metric's name, or the limit's pattern if it matched nothing.
    pub metric: String,
    /// The environment's name, if one matched.
    pub environment: Option<String>,
    /// The unit of the figure; `None` for slowdowns and counts.
    pub unit: Option<Unit>,
    /// Whether the figure is of an emulated CPU.
    pub emulated: bool,
    /// The outcome.
    pub verdict: GateVerdict,
}

/// Whether a limit was held.
#[derive(Clone, Debug, PartialEq)]
pub enum GateVerdict {
    /// The figure is within the limit.
    Held {
        /// The figure.
        figure: f64,
        /// The interval of a slowdown.
        interval: Option<(f64, f64)>,
    },
    /// The figure is not within the limit.
    Failed {
        /// The figure.
        figure: f64,
        /// The interval of a slowdown.
        interval: Option<(f64, f64)>,
    },
    /// How the metrics together differ from the baseline, and whether chance explains it.
    Differences(LabelExchange, bool),
    /// There is no figure, for this reason. Counts as failed.
    NotMeasured(String),
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
