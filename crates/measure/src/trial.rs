use serde::{Deserialize, Deserializer, Serialize};

use crate::{Histogram, MetricId, Noise};

/// The result of one run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The metric's value over the whole trial, in the metric's unit. For throughput and per-operation times this is
    /// elapsed time over operations, including stalls; for a wake-up it is the median.
    #[serde(deserialize_with = "number_or_null")]
    pub value: f64,
    /// Raw samples in the metric's unit, one for each batch, in the order in which they were taken.
    #[serde(deserialize_with = "numbers_or_nulls")]
    pub samples: Vec<f64>,
    /// The full distribution, if the workload times every event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// Events that were due and did not happen in time, counted from the scheduled instant.
    #[serde(default)]
    pub missed: u64,
    /// The duration of the timed part, in ns.
    pub elapsed_ns: u64,
    /// Settings that the agent could not get, such as `no SCHED_FIFO: EPERM`. The remarks are shown beside the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The noise that the agent measured from inside the environment.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The noise was within the limits.
    #[default]
    Accepted,
    /// The noise exceeded a limit, and the trial was repeated; the trial is kept in the file and left out of the
    /// statistics.
    Discarded(String),
    /// The noise exceeded a limit at the last attempt too; the trial counts, and is marked.
    KeptNoisy(String),
}

impl Verdict {
    /// Whether the trial counts in the statistics.
    pub fn counts(&self) -> bool {
        !matches!(self, Verdict::Discarded(_))
    }
}

/// One measurement of one metric in one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The metric.
    pub metric: MetricId,
    /// The name of the environment: [`crate::EnvironmentRecord::name`].
    pub environment: String,
    /// The block: one start (of a process, a container, a boot) of every environment. The block is the highest
    /// repeated level (Kalibera and Jones, ISMM 2013).
    pub block: u32,
    /// The round within the block.
    pub round: u32,
    /// The number of the attempt: 0 for the first, more if noise made a repeat necessary.
    pub attempt: u32,
    /// The result of the measurement.
    pub outcome: Outcome,
    /// The noise around the trial, measured on the host.
    pub host_noise: Noise,
    /// Whether the trial counts.
    pub verdict: Verdict,
}
