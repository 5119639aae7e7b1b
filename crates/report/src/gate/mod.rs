//! Limits that a user sets on a run. Each is held, failed, or not measured, and a limit that was not measured
//! counts as failed.
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
//! the low end of its interval does not. If the low end decided, a worse measurement would pass more easily: fewer
//! starts and a noisier machine widen the interval. A gate must not reward noise. The interval is therefore shown
//! with the outcome, but has no effect on it.
//!
//! `no_difference` judges all the metrics that it names together. Some of them differ by chance, and
//! [`measure::label_exchange`] says whether more differ than chance explains.
//!
//! A limit that matches no metric or environment of the run counts as failed, because it is probably a spelling
//! mistake.

mod evaluate;
mod figures;
pub(crate) mod glob;
mod limit;
mod one_line;
mod outcome;
mod parse;

use measure::compare::Analysis;

pub use figures::Figure;
pub use limit::{Bound, Limit, Statistic};
pub use one_line::NoLimit;
pub use outcome::{GateOutcome, GateVerdict};
pub use parse::GateError;

/// A user's limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gate {
    limits: Vec<Limit>,
}

impl Gate {
    /// Reads a gate file's text.
    ///
    /// # Errors
    /// The text is not TOML of this form or sets no limit. Or a limit is impossible: no metric's name, none or
    /// several bounds, a factor that is not above 0, a share that is not between 0 and 1, a figure that is not
    /// finite.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        Ok(Gate { limits: parse::parse(text)? })
    }

    /// Adds further limits.
    pub fn and(mut self, limits: &[Limit]) -> Self {
        self.limits.extend_from_slice(limits);
        self
    }

    /// The limits in the order of the file.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Evaluates the limits for a run. Returns at least one outcome for each.
    pub fn evaluate(&self, results: &measure::Results, analysis: &Analysis) -> Vec<GateOutcome> {
        self.limits.iter().flat_map(|limit| evaluate::limit(limit, results, analysis)).collect()
    }

    /// Evaluates the limits for the figures of a run without environments. Returns at least one outcome for each.
    pub fn evaluate_figures(&self, figures: &[Figure]) -> Vec<GateOutcome> {
        self.limits.iter().flat_map(|limit| figures::limit(limit, figures)).collect()
    }
}
