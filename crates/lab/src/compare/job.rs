//! One thing to measure, and by what method.

use std::time::Duration;

use measure::MetricSpec;
use workload::protocol::Request;
use workload::ticks::Load;

/// One thing to measure.
pub struct Job {
    /// The metric's name, unit and description.
    pub spec: MetricSpec,
    /// How the metric is measured.
    pub method: Method,
    /// How many CPUs of the run the job uses. They are the first ones.
    pub cpus_used: usize,
}

/// How the metric is measured.
pub enum Method {
    /// The agent measures the metric.
    Agent {
        /// Makes the request to the agent from the CPUs, as the environment numbers them, and the time.
        request: Box<dyn Fn(Vec<usize>, Duration) -> Request>,
        /// The time of a trial. The time limit for the answer follows from it.
        budget: Duration,
        /// Whether trials are made longer where a CPU quota would otherwise not show.
        sees_quota: bool,
    },
    /// cyclictest measures it on the host, in turns with the agent's job of the same kind.
    Cyclictest(Duration),
    /// Ticks measure it, with a load on the receiver's CPU.
    Ticks(Option<Load>),
    /// The metric is a row of `tautline kvm costs`, measured on the host.
    KvmCost(&'static str),
}

impl Method {
    /// Whether the job needs the environment's agent. Other jobs start their own programs.
    pub fn asks_agent(&self) -> bool {
        matches!(self, Method::Agent { .. })
    }
}
