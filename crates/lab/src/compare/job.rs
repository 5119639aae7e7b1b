//! One thing to measure, and by what method.

use std::time::Duration;

use measure::MetricSpec;
use workload::protocol::Request;
use workload::ticks::Load;

/// One thing to measure.
pub struct Job {
    /// What it is.
    pub spec: MetricSpec,
    /// By what method.
    pub method: Method,
    /// On how many of the run's CPUs it works: the first ones.
    pub cpus_used: usize,
}

/// How it is measured.
pub enum Method {
    /// The agent does it.
    Agent {
        /// What is asked of it, given the CPUs as the environment numbers them and the time.
        request: Box<dyn Fn(Vec<usize>, Duration) -> Request>,
        /// The time it is given; the limit for its answer follows from it.
        budget: Duration,
        /// Whether it is given more where a CPU quota needs it to be seen.
        sees_quota: bool,
    },
    /// cyclictest on the host, in alternation with the agent's job of the same kind.
    Cyclictest(Duration),
    /// Ticks, beside a load of the receiver's CPU.
    Ticks(Option<Load>),
    /// A row of `tautline kvm costs`, on the host.
    KvmCost(&'static str),
}

impl Method {
    /// Whether it needs the environment's agent; what does not starts what it needs.
    pub fn asks_agent(&self) -> bool {
        matches!(self, Method::Agent { .. })
    }
}
