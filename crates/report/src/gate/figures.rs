//! Evaluates one limit for figures without an environment.

use measure::{Histogram, Unit};

use super::glob;
use super::limit::{Bound, Limit, Statistic};
use super::outcome::{GateOutcome, GateVerdict};

/// A figure that `max` and `min` may limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The metric's name, such as `throughput.64`.
    pub metric: String,
    /// The unit of the value.
    pub unit: Unit,
    /// The figure itself, or why there is none.
    pub value: Result<f64, String>,
    /// The distribution of the figure in nanoseconds, if there is one.
    pub histogram: Option<Histogram>,
    /// The number of missed events, if they are counted.
    pub missed: Option<u64>,
}

pub(super) fn limit(limit: &Limit, figures: &[Figure]) -> Vec<GateOutcome> {
    let outcome = |metric: &str, unit: Option<Unit>, verdict| GateOutcome {
        limit: limit.clone(),
        metric: metric.into(),
        environment: limit.environment.clone(),
        unit,
        emulated: false,
        verdict,
    };
    let not_measured = |why: &str| vec![outcome(&limit.metric, None, GateVerdict::NotMeasured(why.into()))];
    if limit.environment.is_some() {
        return not_measured("this run has no environments: leave `environment` out");
    }
    let (statistic, most, least) = match limit.bound {
        Bound::Max(statistic, most) => (statistic, most, f64::NEG_INFINITY),
        Bound::Min(statistic, least) => (statistic, f64::INFINITY, least),
        Bound::MaxSlowdown(_) | Bound::NoDifference(_) => {
            return not_measured("this run has nothing to compare with: write max or min");
        }
    };
    let named: Vec<&Figure> =
        figures.iter().filter(|figure| glob::matches(&limit.metric, &figure.metric)).collect();
    if named.is_empty() {
        return not_measured("no metric of this run has such a name");
    }
    let judge = |figure: &&Figure| {
        let unit = (statistic != Statistic::Missed).then(|| figure.unit.clone());
        let verdict = match value(statistic, figure) {
            Ok(figure) if figure <= most && figure >= least => GateVerdict::Held { figure, interval: None },
            Ok(figure) if figure.is_finite() => GateVerdict::Failed { figure, interval: None },
            Ok(_) => GateVerdict::NotMeasured("the figure is not a number".into()),
            Err(why) => GateVerdict::NotMeasured(why),
        };
        outcome(&figure.metric, unit, verdict)
    };
    named.iter().map(judge).collect()
}

fn value(statistic: Statistic, figure: &Figure) -> Result<f64, String> {
    let quantile = |quantile: f64| {
        let histogram = figure.histogram.as_ref().filter(|histogram| histogram.count() > 0);
        histogram
            .map(|histogram| if quantile < 1.0 { histogram.quantile_ns(quantile) } else { histogram.max_ns() } as f64)
            .ok_or_else(|| match &figure.value {
                Err(why) => why.clone(),
                Ok(_) => format!("{statistic} needs a metric that times every event, and this one does not"),
            })
    };
    match statistic {
        Statistic::Median => figure.value.clone(),
        Statistic::P99 => quantile(0.99),
        Statistic::P999 => quantile(0.999),
        Statistic::Max => quantile(1.0),
        Statistic::Missed => {
            figure.missed.map(|missed| missed as f64).ok_or_else(|| "nothing is counted as missed".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Gate;
    use super::*;

    fn figures() -> Vec<Figure> {
        let mut histogram = Histogram::new();
        histogram.record_many_ns(1000, 99);
        histogram.record_many_ns(9000, 1);
        let unit = || Unit::Other("frames/s".into());
        vec![
            Figure {
                metric: "throughput.64".into(),
                unit: unit(),
                value: Ok(1e6),
                histogram: None,
                missed: None,
            },
            Figure {
                metric: "throughput.1518".into(),
                unit: unit(),
                value: Err("undecided".into()),
                histogram: None,
                missed: None,
            },
            Figure {
                metric: "latency.50.64".into(),
                unit: Unit::Nanos,
                value: Ok(1000.0),
                histogram: Some(histogram),
                missed: Some(2),
            },
        ]
    }

    fn outcomes(limit: &str) -> Vec<GateOutcome> {
        Gate::parse(&format!("[[limit]]\n{limit}")).unwrap().evaluate_figures(&figures())
    }

    #[test]
    fn limits_hold_or_fail_and_what_is_not_there_fails() {
        for (limit, held) in [
            ("metric = \"throughput.64\"\nmin = 1e6", true),
            ("metric = \"throughput.64\"\nmin = 1.1e6", false),
            ("metric = \"throughput.*\"\nmin = 1", false),
            ("metric = \"throughput.64\"\nstatistic = \"p99\"\nmax = 1e9", false),
            ("metric = \"latency.*\"\nstatistic = \"p99\"\nmax = 2000", true),
            ("metric = \"latency.*\"\nstatistic = \"max\"\nmax = 2000", false),
            ("metric = \"latency.*\"\nstatistic = \"missed\"\nmax = 2", true),
            ("metric = \"latency.*\"\nenvironment = \"vm\"\nmax = 1e9", false),
            ("metric = \"latency.*\"\nmax_slowdown = 2", false),
            ("metric = \"nothing\"\nmax = 2", false),
        ] {
            let outcomes = outcomes(limit);
            assert!(!outcomes.is_empty());
            assert_eq!(outcomes.iter().all(GateOutcome::held), held, "{limit}: {outcomes:?}");
        }
        assert_eq!(outcomes("metric = \"throughput.*\"\nmin = 1").len(), 2);
    }
}
