//! A budget of latencies: limits by stage, as TOML.

use std::time::Duration;

use measure::Histogram;
use serde::{Deserialize, Serialize};

use super::latency::Watched;

/// The limits, with one `[[stage]]` for each stage.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The budget's title.
    #[serde(default)]
    pub title: String,
    /// The stages.
    pub stage: Vec<Stage>,
}

/// The limits of one stage, in µs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The stage.
    pub name: Watched,
    /// The limit of the median.
    pub p50_us: Option<f64>,
    /// The limit of the 99.9th percentile.
    #[serde(rename = "p99.9_us")]
    pub p999_us: Option<f64>,
    /// The limit of the maximum.
    pub max_us: Option<f64>,
}

/// A limit, and the value found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The stage.
    pub stage: Watched,
    /// Of what.
    pub statistic: String,
    /// The limit, µs.
    pub limit_us: f64,
    /// The value found, µs. `None` if nothing was measured, which exceeds every limit.
    pub found_us: Option<f64>,
}

impl Checked {
    /// Whether the limit is kept.
    pub fn holds(&self) -> bool {
        self.found_us.is_some_and(|found| found <= self.limit_us)
    }
}

impl Budget {
    /// Checks the limits of a stage against its latencies.
    pub fn check(&self, stage: Watched, latencies: &Histogram) -> Vec<Checked> {
        let quantile = |share: f64| {
            let ns = if share < 1.0 { latencies.quantile_ns(share) } else { latencies.max_ns() };
            (latencies.count() > 0).then(|| Duration::from_nanos(ns).as_secs_f64() * 1e6)
        };
        let stages = self.stage.iter().filter(|limits| limits.name == stage);
        let limits = stages.flat_map(|limits| {
            [("p50", limits.p50_us, 0.5), ("p99.9", limits.p999_us, 0.999), ("max", limits.max_us, 1.0)]
        });
        limits
            .filter_map(|(statistic, limit_us, share)| {
                let (limit_us, found_us) = (limit_us?, quantile(share));
                Some(Checked { stage, statistic: statistic.into(), limit_us, found_us })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_or_are_named() {
        let stage = Stage { name: Watched::WakeUp, p50_us: Some(10.0), p999_us: None, max_us: Some(50.0) };
        let budget = Budget { title: String::new(), stage: vec![stage] };
        let missed = |all: &[u64]| -> Vec<Checked> {
            let mut latencies = Histogram::new();
            all.iter().for_each(|ns| latencies.record_ns(*ns));
            budget.check(Watched::WakeUp, &latencies).into_iter().filter(|limit| !limit.holds()).collect()
        };
        assert!(missed(&[5_000, 9_000, 50_000]).is_empty());
        let found = missed(&[5_000, 9_000, 50_001]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].statistic.as_str(), found[0].found_us), ("max", Some(50.001)));
        assert_eq!(missed(&[]).len(), 2, "what was not measured does not hold");
    }
}
