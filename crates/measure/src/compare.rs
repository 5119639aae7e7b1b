//! Derives printed figures from raw trials: summaries per environment, ratios to the base environment.

use std::collections::{BTreeMap, BTreeSet};

use crate::bootstrap::{self, Block, RatioEstimate};
use crate::label_exchange::{LabelExchange, exchange_labels};
use crate::median_interval;
use crate::statistics::{median, relative_spread};
use crate::{Direction, Histogram, MetricId, MetricSpec, Results, Trial, Verdict};

/// One metric in one environment, over all accepted trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Median of the trials' values, in the metric's unit.
    pub median: f64,
    /// Half the distance between the quartiles, divided by the median; 0.03 prints as ± 3 %.
    pub relative_spread: f64,
    /// Accepted trials.
    pub trials: usize,
    /// The number of blocks that the trials come from.
    pub blocks: usize,
    /// The number of these trials that exceeded a noise limit at their last attempt too.
    pub noisy: usize,
    /// Events missed, over all accepted trials.
    pub missed: u64,
    /// The watched time over all accepted trials, in ns.
    pub watched_ns: u64,
    /// The merged distributions of all accepted trials.
    pub histogram: Option<Histogram>,
    /// The agent's remarks about settings that it could not get, each once.
    pub remarks: Vec<String>,
}

/// The conclusion from the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The whole interval lies above 1.
    Slower,
    /// The whole interval lies below 1.
    Faster,
    /// The interval includes 1.
    NoDifferenceShown,
    /// Fewer than [`bootstrap::MIN_BLOCKS`] blocks: no interval can be given.
    TooFewBlocks,
}

/// One metric in one environment, compared with the base environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The metric.
    pub metric: MetricId,
    /// The environment that is compared.
    pub environment: String,
    /// The cost in units of the base's cost: above 1 is worse, whatever the metric's direction.
    pub slowdown: f64,
    /// The interval of the slowdown; covers at least 95 %.
    pub interval: Option<(f64, f64)>,
    /// The probability that the interval excludes 1 by chance alone: exact within one run, an upper limit between two
    /// runs.
    pub chance: Option<f64>,
    /// The number of blocks that hold both sides.
    pub blocks: usize,
    /// The conclusion from the interval.
    pub finding: Finding,
    /// Whether the CPU of either side is emulated: then the ratio says nothing about virtualization.
    pub emulated: bool,
}

/// All data that are derived from a results file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// The summaries by metric and environment name.
    pub summaries: BTreeMap<(MetricId, String), Summary>,
    /// The comparisons in the order of the metrics, then of the environments.
    pub comparisons: Vec<Comparison>,
    /// The number of trials that were discarded because of noise.
    pub discarded: usize,
    /// The number of noisy trials that count.
    pub noisy: usize,
    /// The number of discarded or noisy trials during which an SMT sibling was busy.
    pub disturbed_discarded: usize,
    /// See above.
    pub disturbed_noisy: usize,
}

impl Analysis {
    /// The summary of one metric in one environment.
    pub fn summary(&self, metric: &MetricId, environment: &str) -> Option<&Summary> {
        self.summaries.get(&(metric.clone(), environment.to_owned()))
    }

    /// The comparison of one metric with the base.
    pub fn comparison(&self, metric: &MetricId, environment: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|c| c.metric == *metric && c.environment == environment)
    }
}

impl Comparison {
    /// Whether the interval excludes 1.
    pub fn differs(&self) -> bool {
        matches!(self.finding, Finding::Slower | Finding::Faster)
    }
}

/// The average number of these metrics that would be found to differ although none differs.
pub fn expected_by_chance<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> f64 {
    comparisons.into_iter().filter_map(|comparison| comparison.chance).sum()
}

/// Always the same, so that a results file that is redrawn says the same.
const EXCHANGE_SEED: u64 = 0;

/// Whether the metrics in `in_family` that differ between the base and this environment are more than chance
/// explains. Returns `None` without an interval.
pub fn more_than_chance(
    results: &Results,
    environment: &str,
    in_family: impl Fn(&MetricId) -> bool,
) -> Option<LabelExchange> {
    let by_place = by_place(results);
    let base = results.base()?.name.as_str();
    let numbers: BTreeSet<u32> = results.trials.iter().map(|trial| trial.block).collect();
    let ratios = |spec: &MetricSpec| -> Option<Vec<Option<f64>>> {
        let blocks = pair(by_place.get(&(&spec.id, base))?, by_place.get(&(&spec.id, environment))?);
        let ratio = |block| blocks.get(block).and_then(bootstrap::log_ratio);
        Some(numbers.iter().map(ratio).collect())
    };
    let family = results.metrics.iter().filter(|spec| in_family(&spec.id));
    exchange_labels(&family.filter_map(ratios).collect::<Vec<_>>(), EXCHANGE_SEED)
}

/// Derives all printed data.
pub fn analyse(results: &Results) -> Analysis {
    let count = |is_one: fn(&Trial) -> bool| results.trials.iter().filter(|trial| is_one(trial)).count();
    let mut analysis = Analysis {
        discarded: count(|trial| !trial.verdict.counts()),
        disturbed_discarded: count(|trial| {
            !trial.verdict.counts() && !trial.host_noise.disturbed_cpus.is_empty()
        }),
        disturbed_noisy: count(|trial| trial.verdict.counts() && !trial.host_noise.disturbed_cpus.is_empty()),
        ..Analysis::default()
    };
    let by_place = by_place(results);
    for ((metric, environment), trials) in &by_place {
        if let Some(summary) = summarise(trials) {
            analysis.noisy += summary.noisy;
            analysis.summaries.insert(((*metric).clone(), (*environment).to_owned()), summary);
        }
    }
    let Some((base, others)) = results.environments.split_first() else { return analysis };
    for spec in &results.metrics {
        let Some(base_trials) = by_place.get(&(&spec.id, base.name.as_str())) else { continue };
        let emulated_path = results.network.path_of(&spec.id).is_some_and(|path| path.emulated);
        for other in others {
            if let Some(other_trials) = by_place.get(&(&spec.id, other.name.as_str())) {
                let blocks: Vec<Block> = pair(base_trials, other_trials).into_values().collect();
                let emulated = base.emulated || other.emulated || emulated_path;
                analysis.comparisons.extend(bootstrap::ratio(&blocks).map(|estimate| {
                    let coverage = median_interval::coverage(estimate.blocks);
                    judge(spec, &other.name, emulated, estimate, coverage)
                }));
            }
        }
    }
    analysis
}

/// Compares two runs, with `before` as the base, for each metric and environment in both. The two runs were not
/// measured at the same time, so their blocks are not paired: [`bootstrap::ratio_of_independent`].
pub fn analyse_two(before: &Results, after: &Results) -> Vec<Comparison> {
    let (old, new) = (by_place(before), by_place(after));
    let mut comparisons = Vec::new();
    for spec in after.metrics.iter().filter(|spec| before.metric(&spec.id).is_some()) {
        for environment in &after.environments {
            let place = (&spec.id, environment.name.as_str());
            let (Some(old), Some(new)) = (old.get(&place), new.get(&place)) else { continue };
            let estimate = bootstrap::ratio_of_independent(&values_by_block(old), &values_by_block(new));
            let was_emulated = before.environments.iter().any(|e| e.name == environment.name && e.emulated);
            comparisons.extend(estimate.map(|estimate| {
                let on_path = [before, after]
                    .iter()
                    .any(|run| run.network.path_of(&spec.id).is_some_and(|path| path.emulated));
                let emulated = environment.emulated || was_emulated || on_path;
                judge(spec, &environment.name, emulated, estimate, Some(median_interval::LEVEL))
            }));
        }
    }
    comparisons
}

type ByPlace<'a> = BTreeMap<(&'a MetricId, &'a str), Vec<&'a Trial>>;

/// The trials that count and hold a number, by metric and environment.
fn by_place(results: &Results) -> ByPlace<'_> {
    let mut by_place = ByPlace::new();
    for trial in results.trials.iter().filter(|t| t.verdict.counts() && t.outcome.value.is_finite()) {
        by_place.entry((&trial.metric, &trial.environment)).or_default().push(trial);
    }
    by_place
}

fn values_by_block(trials: &[&Trial]) -> Vec<Vec<f64>> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials {
        blocks.entry(trial.block).or_default().push(trial.outcome.value);
    }
    blocks.into_values().collect()
}

fn summarise(trials: &[&Trial]) -> Option<Summary> {
    let values: Vec<f64> = trials.iter().map(|trial| trial.outcome.value).collect();
    let mut blocks: Vec<u32> = trials.iter().map(|trial| trial.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let mut histogram: Option<Histogram> = None;
    for part in trials.iter().filter_map(|trial| trial.outcome.histogram.as_ref()) {
        histogram.get_or_insert_default().merge(part);
    }
    let mut remarks: Vec<String> = trials.iter().flat_map(|trial| trial.outcome.remarks.clone()).collect();
    remarks.sort();
    remarks.dedup();
    Some(Summary {
        median: median(&values)?,
        relative_spread: relative_spread(&values).unwrap_or(0.0),
        trials: trials.len(),
        blocks: blocks.len(),
        noisy: trials.iter().filter(|trial| matches!(trial.verdict, Verdict::KeptNoisy(_))).count(),
        missed: sum(trials.iter().map(|trial| trial.outcome.missed)),
        watched_ns: sum(trials.iter().map(|trial| trial.outcome.elapsed_ns)),
        histogram,
        remarks,
    })
}

/// A file can hold any number, and a sum that is too large must not end the program.
fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Groups both sides' values by block; a block that one side lacks has no ratio.
fn pair(base: &[&Trial], other: &[&Trial]) -> BTreeMap<u32, Block> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    let empty = || Block { base: Vec::new(), other: Vec::new() };
    for trial in base {
        blocks.entry(trial.block).or_insert_with(empty).base.push(trial.outcome.value);
    }
    for trial in other {
        blocks.entry(trial.block).or_insert_with(empty).other.push(trial.outcome.value);
    }
    blocks
}

/// Turns a ratio of values into a slowdown and says what its interval shows.
fn judge(
    spec: &MetricSpec,
    environment: &str,
    emulated: bool,
    estimate: RatioEstimate,
    coverage: Option<f64>,
) -> Comparison {
    let (slowdown, interval) = match spec.direction {
        Direction::LowerIsBetter => (estimate.ratio, estimate.interval),
        Direction::HigherIsBetter => {
            (1.0 / estimate.ratio, estimate.interval.map(|(low, high)| (1.0 / high, 1.0 / low)))
        }
    };
    let finding = match interval {
        None => Finding::TooFewBlocks,
        Some((low, _)) if low > 1.0 => Finding::Slower,
        Some((_, high)) if high < 1.0 => Finding::Faster,
        Some(_) => Finding::NoDifferenceShown,
    };
    Comparison {
        metric: spec.id.clone(),
        environment: environment.to_owned(),
        slowdown,
        interval,
        chance: interval.and(coverage).map(|coverage| 1.0 - coverage),
        blocks: estimate.blocks,
        finding,
        emulated,
    }
}
