//! The duration of each stage.

use serde::{Deserialize, Serialize};

use super::point::{Points, Stage};

/// The durations of one stage over all ticks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTimes {
    /// Which.
    pub stage: Stage,
    /// ns.
    pub p50_ns: u64,
    /// ns.
    pub p999_ns: u64,
    /// ns.
    pub max_ns: u64,
}

/// All stages that were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Ticks whose stages were searched for.
    pub ticks: u64,
    /// Ticks for which all stages below were found.
    pub complete: u64,
    /// In order.
    pub stages: Vec<StageTimes>,
}

impl Summary {
    /// The summary of all ticks. A stage that was found for no tick is left out, and not required for completeness.
    pub fn of(points: &[Points]) -> Self {
        let found = |stage: Stage| points.iter().any(|points| points.ended(stage).is_some());
        let stages: Vec<Stage> = Stage::ALL.into_iter().filter(|stage| found(*stage)).collect();
        let is_complete = |points: &&Points| stages.iter().all(|stage| points.ended(*stage).is_some());
        let complete: Vec<&Points> = points.iter().filter(is_complete).collect();
        let times = |stage: &Stage| {
            let mut ns: Vec<u64> = complete.iter().filter_map(|points| points.ns(*stage)).collect();
            ns.sort_unstable();
            let at = |share: f64| {
                let place = (ns.len() as f64 * share).ceil() as usize;
                ns.get(place.saturating_sub(1)).copied().unwrap_or(0)
            };
            StageTimes { stage: *stage, p50_ns: at(0.5), p999_ns: at(0.999), max_ns: at(1.0) }
        };
        Summary {
            ticks: points.len() as u64,
            complete: complete.len() as u64,
            stages: stages.iter().map(times).collect(),
        }
    }

    /// A stage's times.
    pub fn times(&self, stage: Stage) -> Option<&StageTimes> {
        self.stages.iter().find(|times| times.stage == stage)
    }

    /// The share of ticks for which all stages were found.
    pub fn complete_share(&self) -> f64 {
        if self.ticks == 0 { 0.0 } else { self.complete as f64 / self.ticks as f64 }
    }
}
