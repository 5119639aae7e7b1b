//! A summary of a run: a line or two for each environment, and how many differences chance explains.

use measure::compare::{Finding, expected_by_chance};
use measure::{EnvironmentRecord, QuotaRecord};

use crate::view::View;
use crate::{coverage, units};

/// The lines of the summary.
pub(crate) fn lines(view: &View) -> Vec<String> {
    let environments = view.results.environments.iter().skip(1);
    let mut lines: Vec<String> = environments.filter_map(|record| findings(view, &record.name)).collect();
    lines.extend(intervals(view));
    lines.extend(view.results.environments.iter().filter_map(|record| quota(view, record)));
    lines
}

/// In how many metrics a difference was shown, and in how many it would be by chance.
fn findings(view: &View, environment: &str) -> Option<String> {
    let of_it = || view.analysis.comparisons.iter().filter(|c| c.environment == environment);
    let count = |finding: Finding| of_it().filter(|c| c.finding == finding).count();
    let [none, slower, faster] = [Finding::NoDifferenceShown, Finding::Slower, Finding::Faster].map(count);
    let metrics = none + slower + faster;
    let record = view.results.environments.iter().find(|record| record.name == environment)?;
    let text = format!(
        "{}: no difference shown in {none} of {metrics} metrics; {slower} slower, {faster} faster; \
         about {} of {metrics} would differ by chance at this level",
        crate::view::environment_name(record),
        coverage::by_chance(expected_by_chance(of_it())),
    );
    (metrics > 0).then_some(text)
}

/// The kind of the intervals, and their real coverage.
fn intervals(view: &View) -> Option<String> {
    let blocks = view.analysis.comparisons.iter().filter(|c| c.interval.is_some()).map(|c| c.blocks).max()?;
    let coverage = coverage::of_ratios(blocks, "starts")?;
    Some(format!("intervals hold the true ratio in at least 95 % of cases; {coverage}"))
}

/// The CPU quota of an environment, and how often it was used up: the cause of its slowdowns.
fn quota(view: &View, record: &EnvironmentRecord) -> Option<String> {
    let QuotaRecord { quota, inherited, trial_ms } = record.cpu_quota?;
    let trials = || view.results.trials.iter().filter(|t| t.environment == record.name && t.verdict.counts());
    let throttled = trials().filter(|trial| trial.host_noise.throttled_periods > 0).count();
    let times = trials().fold(0u64, |sum, trial| sum.saturating_add(trial.host_noise.throttled_periods));
    let ms = |us: u64| short(us as f64 / 1000.0);
    let mut text = format!(
        "{}: CPU quota of {} CPUs ({} of every {} ms): throttled {} times, in {throttled} of {} trials",
        crate::view::environment_name(record),
        short(quota.cpus()),
        ms(quota.quota_us),
        ms(quota.period_us),
        units::count(times),
        trials().count(),
    );
    text.push_str(&match (inherited, quota.cpus() < 1.0) {
        (true, _) => "; it is this process's own and in all figures: measure outside of it".to_owned(),
        (false, true) => format!(
            "; trials of at least {trial_ms} ms see it: work of one CPU takes {} times as long by the quota alone",
            units::factor(1.0 / quota.cpus()).trim_start_matches('×'),
        ),
        (false, false) => format!("; trials of at least {trial_ms} ms see it, where work wants more CPUs"),
    });
    Some(text)
}

fn short(figure: f64) -> String {
    format!("{}", (figure * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::compare::analyse;
    use measure::example;

    #[test]
    fn chance_and_coverage_are_those_of_the_starts() {
        let mut results = example::results();
        let text = |results: &measure::Results| {
            let analysis = analyse(results);
            lines(&View::new(results, &analysis)).join("\n")
        };
        // Two more starts, copies of the first.
        for block in [8, 9] {
            let copies: Vec<_> = results.trials.iter().filter(|trial| trial.block == 0).cloned().collect();
            results.trials.extend(copies.into_iter().map(|trial| measure::Trial { block, ..trial }));
        }
        let metrics = results.metrics.len();
        for (blocks, words, chance) in [
            (10, "10 starts: 2nd smallest to 2nd largest of the starts' ratios, 97.9 %", 22.0 / 1024.0),
            (8, "8 starts: minimum to maximum of the starts' ratios, 99.2 %", 2.0 / 256.0),
            (6, "6 starts: minimum to maximum of the starts' ratios, 96.9 %", 2.0 / 64.0),
        ] {
            results.trials.retain(|trial| trial.block < blocks);
            let found = text(&results);
            assert!(found.contains(words), "{found}");
            let expected =
                format!("about {:.1} of {metrics} would differ by chance", metrics as f64 * chance);
            assert!(found.contains(&expected), "{expected}: {found}");
        }
        results.trials.retain(|trial| trial.block < 5);
        let found = text(&results);
        assert!(
            !found.contains("chance") && !found.contains("intervals"),
            "too few starts show nothing: {found}"
        );
    }

    #[test]
    fn a_quota_is_named_with_how_often_it_was_used_up() {
        let mut results = example::results();
        let text = |results: &measure::Results| {
            let analysis = analyse(results);
            lines(&View::new(results, &analysis)).join("\n")
        };
        results.trials.iter_mut().for_each(|trial| trial.host_noise = measure::Noise::default());
        let quota = measure::quota::CpuQuota { quota_us: 4_500, period_us: 5_000 };
        results.environments[1].cpu_quota = Some(QuotaRecord { quota, inherited: false, trial_ms: 200 });
        let in_container = |trial: &&mut measure::Trial| trial.environment == "container" && trial.block == 0;
        for trial in results.trials.iter_mut().filter(in_container).take(3) {
            trial.host_noise.throttled_periods = 400;
        }
        let found = text(&results);
        for words in [
            "container: CPU quota of 0.9 CPUs (4.5 of every 5 ms)",
            "throttled 1\u{202f}200 times, in 3 of ",
            "takes 1.11 times as long by the quota alone",
        ] {
            assert!(found.contains(words), "{words}: {found}");
        }
        results.environments[0].cpu_quota = Some(QuotaRecord { quota, inherited: true, trial_ms: 20 });
        assert!(
            text(&results).contains("host: CPU quota of 0.9 CPUs (4.5 of every 5 ms): throttled 0 times")
        );
        assert!(text(&results).contains("this process's own"));
    }
}
