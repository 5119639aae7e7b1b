use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a metric: dotted lower-case words from the group down, such as `os.pipe.latency`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MetricId(pub String);

impl MetricId {
    /// A name from its text.
    pub fn new(text: impl Into<String>) -> Self {
        MetricId(text.into())
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The group in which a metric is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Computation and latencies of operations.
    Cpu,
    /// Bandwidth and load latency.
    Memory,
    /// Operating-system services for a process.
    Os,
    /// The time from a timer's instant to user space.
    Wakeup,
    /// The time from a tick's instant, by a doorbell, to user space.
    Tti,
    /// The costs of packets on their way between two ends.
    Net,
    /// The costs of a guest's exits, interrupts and faults.
    Kvm,
    /// A program that the user supplied.
    External,
}

impl Group {
    /// All groups, in the order in which they are shown.
    pub const ALL: [Group; 8] = [
        Group::Cpu,
        Group::Memory,
        Group::Os,
        Group::Wakeup,
        Group::Tti,
        Group::Net,
        Group::Kvm,
        Group::External,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Group::Cpu => "cpu",
            Group::Memory => "memory",
            Group::Os => "os",
            Group::Wakeup => "wakeup",
            Group::Tti => "tti",
            Group::Net => "net",
            Group::Kvm => "kvm",
            Group::External => "external",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The unit of a metric's values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Unit {
    /// Nanoseconds (per operation).
    Nanos,
    /// Bytes a second.
    BytesPerSecond,
    /// Operations (iterations of a kernel) a second.
    OpsPerSecond,
    /// A unit that an external program's configuration names.
    Other(String),
}

impl From<String> for Unit {
    fn from(text: String) -> Self {
        match text.as_str() {
            "ns" => Unit::Nanos,
            "B/s" => Unit::BytesPerSecond,
            "op/s" => Unit::OpsPerSecond,
            _ => Unit::Other(text),
        }
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.to_string()
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Unit::Nanos => "ns",
            Unit::BytesPerSecond => "B/s",
            Unit::OpsPerSecond => "op/s",
            Unit::Other(text) => text,
        })
    }
}

/// The direction of better values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// A latency or a cost: lower is better.
    LowerIsBetter,
    /// A rate.
    HigherIsBetter,
}

/// A metric's place on a curve, for metrics that are points of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The curve's name, such as `load latency, random, small pages`.
    pub curve: String,
    /// The place on the x axis.
    pub x: f64,
    /// The meaning of x, with its unit: `array size, bytes`.
    pub x_title: String,
}

/// The description of a metric: enough to print and compare it without knowing the code that measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Its name.
    pub id: MetricId,
    /// The group in which the metric is shown.
    pub group: Group,
    /// A short description in words, for a table's first column.
    pub title: String,
    /// The unit of the metric's values.
    pub unit: Unit,
    /// The direction of better values.
    pub direction: Direction,
    /// The metric's place on a curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<CurvePoint>,
}
