//! Evaluates one limit for one run.

use measure::compare::{self, Analysis, Summary};
use measure::{EnvironmentRecord, MetricSpec, Results, Unit, bootstrap};

use super::glob;
use super::limit::{Bound, Limit, Statistic};
use super::outcome::{GateOutcome, GateVerdict};

pub(super) fn limit(limit: &Limit, results: &Results, analysis: &Analysis) -> Vec<GateOutcome> {
    let unmatched = |environment: Option<String>, why: &str| {
        vec![GateOutcome {
            limit: limit.clone(),
            metric: limit.metric.clone(),
            environment,
            unit: None,
            emulated: false,
            verdict: GateVerdict::NotMeasured(why.into()),
        }]
    };
    let metrics: Vec<&MetricSpec> =
        results.metrics.iter().filter(|spec| glob::matches(&limit.metric, spec.id.as_str())).collect();
    if metrics.is_empty() {
        return unmatched(limit.environment.clone(), "no metric of this run has such a name");
    }
    let environments: Vec<&EnvironmentRecord> = match &limit.environment {
        Some(name) => results.environments.iter().filter(|e| e.name == *name).collect(),
        // The base is not compared to itself.
        None if matches!(limit.bound, Bound::MaxSlowdown(_) | Bound::NoDifference(_)) => {
            results.environments.iter().skip(1).collect()
        }
        None => results.environments.iter().collect(),
    };
    if environments.is_empty() {
        return unmatched(limit.environment.clone(), "no such environment in this run");
    }
    if let Bound::NoDifference(significance) = limit.bound {
        let outcome = |environment: &EnvironmentRecord| GateOutcome {
            limit: limit.clone(),
            metric: limit.metric.clone(),
            environment: Some(environment.name.clone()),
            unit: None,
            emulated: environment.emulated,
            verdict: differences(&limit.metric, significance, environment, results),
        };
        return environments.into_iter().map(outcome).collect();
    }
    let places = metrics.iter().flat_map(|spec| environments.iter().map(move |e| (*spec, *e)));
    places
        .map(|(spec, environment)| GateOutcome {
            limit: limit.clone(),
            metric: spec.id.as_str().into(),
            environment: Some(environment.name.clone()),
            unit: unit(limit.bound, spec),
            emulated: environment.emulated,
            verdict: judge(limit.bound, spec, environment, results, analysis),
        })
        .collect()
}

fn differences(
    pattern: &str,
    significance: f64,
    environment: &EnvironmentRecord,
    results: &Results,
) -> GateVerdict {
    let found =
        compare::more_than_chance(results, &environment.name, |id| glob::matches(pattern, id.as_str()));
    match found {
        None => GateVerdict::NotMeasured(environment.failure.as_ref().map_or_else(
            || format!("no metric has the {} starts that an interval takes", bootstrap::MIN_BLOCKS),
            ToString::to_string,
        )),
        Some(found) if found.least_p_value > significance => {
            GateVerdict::NotMeasured("so few starts cannot tell: give more --blocks".into())
        }
        Some(found) => GateVerdict::Differences(found, found.p_value > significance),
    }
}

fn unit(bound: Bound, spec: &MetricSpec) -> Option<Unit> {
    match bound {
        Bound::MaxSlowdown(_) | Bound::NoDifference(_) => None,
        Bound::Max(Statistic::Missed, _) | Bound::Min(Statistic::Missed, _) => None,
        Bound::Max(..) | Bound::Min(..) => Some(spec.unit.clone()),
    }
}

fn judge(
    bound: Bound,
    spec: &MetricSpec,
    environment: &EnvironmentRecord,
    results: &Results,
    analysis: &Analysis,
) -> GateVerdict {
    let Some(summary) = analysis.summary(&spec.id, &environment.name) else {
        return GateVerdict::NotMeasured(why_absent(spec, environment, results));
    };
    let found = match bound {
        Bound::MaxSlowdown(_) => match analysis.comparison(&spec.id, &environment.name) {
            Some(comparison) => Ok((comparison.slowdown, comparison.interval)),
            None => Err("it has no ratio to the base environment".to_owned()),
        },
        Bound::NoDifference(_) => Err("it is about all metrics together".to_owned()),
        Bound::Max(statistic, _) | Bound::Min(statistic, _) => {
            figure(statistic, summary).map(|figure| (figure, None)).ok_or_else(|| {
                format!("{statistic} needs a metric that times every event, and this one does not")
            })
        }
    };
    let (figure, interval) = match found {
        Ok((figure, interval)) if figure.is_finite() => (figure, interval),
        Ok(_) => return GateVerdict::NotMeasured("the figure is not a number".into()),
        Err(why) => return GateVerdict::NotMeasured(why),
    };
    let held = match bound {
        Bound::MaxSlowdown(most) | Bound::Max(_, most) => figure <= most,
        Bound::Min(_, least) => figure >= least,
        Bound::NoDifference(_) => false,
    };
    if held { GateVerdict::Held { figure, interval } } else { GateVerdict::Failed { figure, interval } }
}

fn figure(statistic: Statistic, summary: &Summary) -> Option<f64> {
    let histogram = summary.histogram.as_ref().filter(|histogram| histogram.count() > 0);
    match statistic {
        Statistic::Median => Some(histogram.map_or(summary.median, |histogram| histogram.median_ns() as f64)),
        Statistic::P99 => histogram.map(|histogram| histogram.quantile_ns(0.99) as f64),
        Statistic::P999 => histogram.map(|histogram| histogram.quantile_ns(0.999) as f64),
        Statistic::Max => histogram.map(|histogram| histogram.max_ns() as f64),
        Statistic::Missed => histogram.map(|_| summary.missed as f64),
    }
}

fn why_absent(spec: &MetricSpec, environment: &EnvironmentRecord, results: &Results) -> String {
    let absence = results.absences.iter().find(|a| a.metric == spec.id && a.environment == environment.name);
    let reason = absence.map(|absence| &absence.reason).or(environment.failure.as_ref());
    reason.map_or("no trial of it counts".into(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::super::Gate;
    use super::*;
    use measure::example;

    fn outcomes(limit: &str) -> Vec<GateOutcome> {
        let results = example::results();
        Gate::parse(&format!("[[limit]]\n{limit}")).unwrap().evaluate(&results, &compare::analyse(&results))
    }

    fn held(limit: &str) -> bool {
        let outcomes = outcomes(limit);
        assert!(!outcomes.is_empty());
        outcomes.iter().all(GateOutcome::held)
    }

    #[test]
    fn slowdowns_are_held_against_the_point_estimate() {
        assert!(held("metric='os.syscall'\nenvironment='container'\nmax_slowdown=2.0"));
        assert!(!held("metric='os.syscall'\nenvironment='container'\nmax_slowdown=1.5"));
        let results = example::results();
        let analysis = compare::analyse(&results);
        let found = analysis.comparison(&measure::MetricId::new("os.syscall"), "container").unwrap();
        let (low, _) = found.interval.unwrap();
        assert!(low < found.slowdown);
        // A limit inside the interval, below the estimate: failed.
        let between = (low + found.slowdown) / 2.0;
        assert!(!held(&format!("metric='os.syscall'\nenvironment='container'\nmax_slowdown={between}")));
        assert!(held(&format!(
            "metric='os.syscall'\nenvironment='container'\nmax_slowdown={}",
            found.slowdown
        )));
    }

    #[test]
    fn values_and_quantiles_are_held_in_the_metrics_unit() {
        assert!(held("metric='os.syscall'\nenvironment='host'\nmax=130"));
        assert!(!held("metric='os.syscall'\nenvironment='host'\nmax=90"));
        assert!(held("metric='memory.read'\nenvironment='host'\nmin=10e9"));
        assert!(!held("metric='memory.read'\nenvironment='host'\nmin=12e9"));
        assert!(held("metric='wakeup.idle'\nenvironment='host'\nstatistic='p99'\nmax=20e3"));
        assert!(!held("metric='wakeup.idle'\nenvironment='host'\nstatistic='max'\nmax=20e3"));
        assert!(held("metric='wakeup.*'\nenvironment='host'\nstatistic='missed'\nmax=0"));
        assert!(!held("metric='wakeup.*'\nenvironment='vm'\nstatistic='missed'\nmax=0"));
    }

    #[test]
    fn what_was_not_measured_or_matches_nothing_fails_and_says_why() {
        for (limit, why) in [
            ("metric='os.sycall'\nmax=1e9", "no metric"),
            ("metric='os.syscall'\nenvironment='vmm'\nmax=1e9", "no such environment"),
            ("metric='os.syscall'\nenvironment='lxc'\nmax=1e9", "apt-get install lxc"),
            ("metric='memory.latency.random.huge_pages.16384'\nenvironment='vm'\nmax=1e9", "Cannot allocate"),
            ("metric='os.syscall'\nenvironment='host'\nstatistic='p99'\nmax=1e9", "every event"),
            ("metric='os.syscall'\nenvironment='host'\nmax_slowdown=9", "no ratio"),
        ] {
            let outcomes = outcomes(limit);
            assert_eq!(outcomes.len(), 1, "{limit}");
            assert!(!outcomes[0].held() && outcomes[0].to_string().contains(why), "{}", outcomes[0]);
        }
    }

    #[test]
    fn without_an_environment_all_are_held_to_it_the_failed_one_too() {
        let outcomes = outcomes("metric='os.syscall'\nmax_slowdown=100");
        let names: Vec<_> = outcomes.iter().map(|o| (o.environment.as_deref().unwrap(), o.held())).collect();
        assert_eq!(names, [("container", true), ("vm", true), ("lxc", false)]);
        assert!(outcomes[1].to_string().contains(crate::EMULATED_MARK), "{}", outcomes[1]);
    }

    /// The example's host, measured twice: the second time slower by the factor `slowed` in every metric.
    fn like_the_host(blocks: u32, slowed: f64) -> Results {
        let mut results = example::results();
        let name = results.environments[1].name.clone();
        results.trials.retain(|trial| trial.environment == "host" && trial.block == 0);
        let first = std::mem::take(&mut results.trials);
        let mut state = 1u64;
        for (block, trial) in (0..blocks).flat_map(|block| first.iter().map(move |trial| (block, trial))) {
            for (environment, factor) in [("host", 1.0), (name.as_str(), slowed)] {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let mut trial = measure::Trial { block, environment: environment.into(), ..trial.clone() };
                trial.outcome.value *= factor * (1.0 + 0.1 * (state >> 40) as f64 / (1u64 << 24) as f64);
                results.trials.push(trial);
            }
        }
        results
    }

    #[test]
    fn no_difference_allows_what_chance_makes_and_no_more() {
        let words = |blocks: u32, slowed: f64| {
            let results = like_the_host(blocks, slowed);
            let gate = "[[limit]]\nmetric='*'\nenvironment='container'\nno_difference=0.005\n";
            let outcomes = Gate::parse(gate).unwrap().evaluate(&results, &compare::analyse(&results));
            assert_eq!(outcomes.len(), 1, "one for all metrics together");
            (outcomes[0].held(), outcomes[0].to_string())
        };
        let (held, text) = words(12, 1.0);
        assert!(
            held && text.contains("of 76 metrics of * in container differ, by chance about 2.9"),
            "{text}"
        );
        let (held, text) = words(12, 1.2);
        assert!(!held && text.starts_with("FAILED: 76 of 76"), "{text}");
        let (held, text) = words(6, 1.2);
        assert!(!held && text.contains("more --blocks"), "{text}");
        let (held, text) = words(5, 1.0);
        assert!(!held && text.contains("6 starts"), "{text}");
    }
}
