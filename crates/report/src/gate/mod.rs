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
    /// The text is not TOML of this form, sets no limit, or a limit is impossible: no metric's name, none or several
    /// bounds, a factor that is not above 0, a share that is not between 0 and 1, a figure that is not finite.
    pub fn parse(text: &str) -> Result<Self, GateError> {
        Ok(Gate { limits: parse::parse(text)? })
    }

    /// With more limits behind those that it has.
    pub fn and(mut self, limits: &[Limit]) -> Self {
        self.limits.extend_from_slice(limits);
        self
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
