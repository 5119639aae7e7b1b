//! A limit as the user set it.

use std::fmt;

use serde::Deserialize;
use serde::de::IntoDeserializer;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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

impl Statistic {
    /// By the name that it is written with.
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
