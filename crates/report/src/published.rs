//! Published figures to compare ours with. They are always shown with their platform.

use measure::MetricSpec;

use crate::gate::glob;

/// The platform on which [`LMBENCH`] was measured.
pub(crate) const PLATFORM: &str = "QorIQ T4240, 2014";

/// A published slowdown under KVM, guest against host.
pub(crate) struct Published {
    /// The published name.
    pub(crate) what: &'static str,
    pub(crate) degradation_percent: f64,
    /// The metrics of this project that measure the same kind of work.
    metrics: &'static str,
}

const fn published(what: &'static str, degradation_percent: f64, metrics: &'static str) -> Published {
    Published { what, degradation_percent, metrics }
}

/// LMbench, native against KVM.
pub(crate) const LMBENCH: [Published; 10] = [
    published("select on TCP fds", 0.34, "os.select*"),
    published("signal handler overhead", 0.57, "os.signal*"),
    published("integer divide", 0.21, "cpu.*int*div*"),
    published("float divide", 0.0, "cpu.*float*div*"),
    published("double divide", 0.47, "cpu.*double*div*"),
    published("AF_UNIX bandwidth", 3.75, "os.*unix*bandwidth*"),
    published("memory read bandwidth", 0.0, "memory.*read*"),
    published("memory write bandwidth", 5.48, "memory.*write*"),
    published("memory latency, sequential", 1.44, "memory.*latency*sequential*"),
    published("memory latency, random", 417.81, "memory.*latency*random*"),
];

impl Published {
    /// Our metrics of the same kind. From a curve only its last point is taken, because only that was published.
    pub(crate) fn matching<'a>(&self, specs: &'a [MetricSpec]) -> Vec<&'a MetricSpec> {
        let x = |spec: &MetricSpec| spec.curve.as_ref().map(|point| point.x);
        let same_curve = |a: &MetricSpec, b: &MetricSpec| match (&a.curve, &b.curve) {
            (Some(a), Some(b)) => a.curve == b.curve,
            _ => false,
        };
        let all: Vec<&MetricSpec> =
            specs.iter().filter(|spec| glob::matches(self.metrics, spec.id.as_str())).collect();
        let farther =
            |spec: &MetricSpec| all.iter().any(|other| same_curve(other, spec) && x(other) > x(spec));
        all.iter().copied().filter(|spec| !farther(spec)).collect()
    }
}
