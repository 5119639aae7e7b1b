use serde::{Deserialize, Deserializer, Serialize};

use crate::{Histogram, MetricId, Noise};

/// What one run of a workload hands back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The metric's value over the whole trial, in its unit. For throughput and per-operation times this
    /// is elapsed time over operations, stalls included; for a wake-up it is the median.
    #[serde(deserialize_with = "number_or_null")]
    pub value: f64,
    /// Raw samples in the metric's unit, one per batch, in the order they were taken.
    #[serde(deserialize_with = "numbers_or_nulls")]
    pub samples: Vec<f64>,
    /// The full distribution, where the workload times every event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// Events that were due and did not happen in time, counted from the scheduled instant.
    #[serde(default)]
    pub missed: u64,
    /// Nanoseconds the timed part took.
    pub elapsed_ns: u64,
    /// What the agent could not have as it wanted, such as `no SCHED_FIFO: EPERM`. Shown beside the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The noise that the agent saw from inside.
    pub noise: Noise,
}

/// JSON has no NaN and no infinity: serde_json writes null, and one such value must not make the file
/// unreadable. A trial without a number stays in the file and out of the statistics.
fn number_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn numbers_or_nulls<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values: Vec<Option<f64>> = Vec::deserialize(from)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect())
}

/// Whether a trial counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the noise limits.
    Accepted,
    /// Over a limit, and repeated; kept in the file, not in the statistics.
    Discarded(String),
    /// Over a limit at the last attempt too: counts, and is marked.
    KeptNoisy(String),
}

impl Verdict {
    /// Whether the trial enters the statistics.
    pub fn counts(&self) -> bool {
        !matches!(self, Verdict::Discarded(_))
    }
}

/// One measurement of one metric in one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The metric.
    pub metric: MetricId,
    /// The name of the environment, as in [`crate::EnvironmentRecord::name`].
    pub environment: String,
    /// The block: one start (of a process, a container, a boot) of every environment. The highest
    /// repeated level (Kalibera and Jones, ISMM 2013).
    pub block: u32,
    /// The round within the block.
    pub round: u32,
    /// 0 for the first try, counting up where noise made a repeat necessary.
    pub attempt: u32,
    /// What was measured.
    pub outcome: Outcome,
    /// The noise around the trial, seen from the host.
    pub host_noise: Noise,
    /// Whether it counts.
    pub verdict: Verdict,
}
