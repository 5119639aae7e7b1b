//! A limit as the user set it.

use std::fmt;

use serde::Deserialize;
use serde::de::IntoDeserializer;

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The metric's name, or a pattern with `*`.
    pub metric: String,
    /// The environment's name; `None` for all environments.
    pub environment: Option<String>,
    /// The limited statistic and its limit.
    pub bound: Bound,
}

/// The limited figure, and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The slowdown against the base environment.
    MaxSlowdown(f64),
    /// The highest allowed value of a statistic, in the metric's unit.
    Max(Statistic, f64),
    /// The lowest allowed value of a statistic, in the metric's unit.
    Min(Statistic, f64),
    /// No more differences from the baseline than chance explains, at this significance.
    NoDifference(f64),
}

/// The statistic that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The median of the trials' values. For a distribution, the median of all samples.
    Median,
    /// The 99th percentile of a distribution.
    P99,
    /// The 99.9th percentile of a distribution.
    P999,
    /// The observed maximum of a distribution.
    Max,
    /// The number of missed events.
    Missed,
}

impl Statistic {
    /// The statistic of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        use serde::de::value::{Error, StrDeserializer};
        let written: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(written).ok()
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
