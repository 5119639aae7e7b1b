//! From raw trials to what is printed: summaries per environment, ratios to the base environment.

use std::collections::BTreeMap;

use crate::bootstrap::{self, Block};
use crate::statistics::{median, relative_spread};
use crate::{Direction, EnvironmentRecord, Histogram, MetricId, MetricSpec, Results, Trial, Verdict};

/// One metric in one environment, over all accepted trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Median of the trials' values, in the metric's unit.
    pub median: f64,
    /// Half the distance between the quartiles over the median; 0.03 prints as ± 3 %.
    pub relative_spread: f64,
    /// Accepted trials.
    pub trials: usize,
    /// Blocks they come from.
    pub blocks: usize,
    /// Trials among them that were over a noise limit at their last attempt too.
    pub noisy: usize,
    /// Events missed, over all accepted trials.
    pub missed: u64,
    /// Nanoseconds watched, over all accepted trials.
    pub watched_ns: u64,
    /// All accepted trials' distributions, merged.
    pub histogram: Option<Histogram>,
    /// What the agent could not have as it wanted, each once.
    pub remarks: Vec<String>,
}

/// What the interval says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The whole interval lies above 1.
    Slower,
    /// The whole interval lies below 1.
    Faster,
    /// The interval holds 1.
    NoDifferenceShown,
    /// Fewer than [`bootstrap::MIN_BLOCKS`] blocks: no interval can be given.
    TooFewBlocks,
}

/// One metric in one environment beside the base environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The metric.
    pub metric: MetricId,
    /// The environment that is compared.
    pub environment: String,
    /// Times the cost of the base: above 1 is worse, whatever the metric's direction.
    pub slowdown: f64,
    /// The 95 % interval of the slowdown.
    pub interval: Option<(f64, f64)>,
    /// Blocks that held both sides.
    pub blocks: usize,
    /// What the interval says.
    pub finding: Finding,
    /// Whether the compared environment's CPU is emulated.
    pub emulated: bool,
}

/// Everything derived from a results file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// By metric and environment's name.
    pub summaries: BTreeMap<(MetricId, String), Summary>,
    /// In the order of the metrics, then of the environments.
    pub comparisons: Vec<Comparison>,
    /// Trials thrown away because of noise.
    pub discarded: usize,
    /// Trials that count although noisy.
    pub noisy: usize,
}

impl Analysis {
    /// One metric in one environment.
    pub fn summary(&self, metric: &MetricId, environment: &str) -> Option<&Summary> {
        self.summaries.get(&(metric.clone(), environment.to_owned()))
    }

    /// One metric's comparison with the base.
    pub fn comparison(&self, metric: &MetricId, environment: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|c| c.metric == *metric && c.environment == environment)
    }
}

/// Derives everything that is printed.
pub fn analyse(results: &Results) -> Analysis {
    let mut analysis = Analysis {
        discarded: results.trials.iter().filter(|trial| !trial.verdict.counts()).count(),
        ..Analysis::default()
    };
    let mut by_place: BTreeMap<(&MetricId, &str), Vec<&Trial>> = BTreeMap::new();
    for trial in results.trials.iter().filter(|trial| trial.verdict.counts()) {
        by_place.entry((&trial.metric, &trial.environment)).or_default().push(trial);
    }
    for ((metric, environment), trials) in &by_place {
        if let Some(summary) = summarise(trials) {
            analysis.noisy += summary.noisy;
            analysis.summaries.insert(((*metric).clone(), (*environment).to_owned()), summary);
        }
    }
    let Some((base, others)) = results.environments.split_first() else { return analysis };
    for spec in &results.metrics {
        let Some(base_trials) = by_place.get(&(&spec.id, base.name.as_str())) else { continue };
        for other in others {
            if let Some(other_trials) = by_place.get(&(&spec.id, other.name.as_str())) {
                let blocks = pair(base_trials, other_trials);
                analysis.comparisons.extend(compare(spec, other, &blocks, results.plan.seed));
            }
        }
    }
    analysis
}

/// Compares two runs: the base environments' trials are blocks of two independent samples, so they are
/// paired by their order. For each metric and environment that both hold.
pub fn analyse_two(before: &Results, after: &Results) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for spec in after.metrics.iter().filter(|spec| before.metric(&spec.id).is_some()) {
        for environment in &after.environments {
            let of = |results: &'_ Results| -> Vec<Trial> {
                results
                    .trials
                    .iter()
                    .filter(|t| {
                        t.verdict.counts() && t.metric == spec.id && t.environment == environment.name
                    })
                    .cloned()
                    .collect()
            };
            let (old, new) = (of(before), of(after));
            let blocks = pair(&old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>());
            comparisons.extend(compare(spec, environment, &blocks, after.plan.seed));
        }
    }
    comparisons
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
        missed: trials.iter().map(|trial| trial.outcome.missed).sum(),
        watched_ns: trials.iter().map(|trial| trial.outcome.elapsed_ns).sum(),
        histogram,
        remarks,
    })
}

/// Groups both sides' values by block; a block that one side lacks is left out by the bootstrap.
fn pair(base: &[&Trial], other: &[&Trial]) -> Vec<Block> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    let empty = || Block { base: Vec::new(), other: Vec::new() };
    for trial in base {
        blocks.entry(trial.block).or_insert_with(empty).base.push(trial.outcome.value);
    }
    for trial in other {
        blocks.entry(trial.block).or_insert_with(empty).other.push(trial.outcome.value);
    }
    blocks.into_values().collect()
}

fn compare(
    spec: &MetricSpec,
    environment: &EnvironmentRecord,
    blocks: &[Block],
    seed: u64,
) -> Option<Comparison> {
    let estimate = bootstrap::ratio(blocks, seed)?;
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
    Some(Comparison {
        metric: spec.id.clone(),
        environment: environment.name.clone(),
        slowdown,
        interval,
        blocks: estimate.blocks,
        finding,
        emulated: environment.emulated,
    })
}
