//! From samples to effects: paired over blocks, ratios for latencies and differences for counts, which may be zero.

use measure::Histogram;
use measure::bootstrap::{Block, ratio};
use measure::difference::difference;
use measure::statistics::median;
use serde::{Deserialize, Serialize};

use super::record::Sample;
use super::states::State;

/// One figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// The median wake-up latency.
    WakeupMedian,
    /// The 99th percentile of wake-up latencies.
    WakeupP99,
    /// The 99.9th percentile of wake-up latencies.
    WakeupP999,
    /// The highest wake-up latency.
    WakeupMax,
    /// Interrupts other than those of the CPU's timer.
    Interrupts,
    /// Interrupts of the CPU's timer.
    Timer,
    /// Soft interrupts.
    Softirqs,
    /// Context switches.
    Switches,
}

impl Figure {
    /// All figures in the order of the table.
    pub const ALL: [Figure; 8] = [
        Figure::WakeupMedian,
        Figure::WakeupP99,
        Figure::WakeupP999,
        Figure::WakeupMax,
        Figure::Interrupts,
        Figure::Timer,
        Figure::Softirqs,
        Figure::Switches,
    ];

    /// The figure's name in the first column of a table.
    pub fn title(self) -> &'static str {
        match self {
            Figure::WakeupMedian => "wake-up, median",
            Figure::WakeupP99 => "wake-up, 99 %",
            Figure::WakeupP999 => "wake-up, 99.9 %",
            Figure::WakeupMax => "wake-up, maximum",
            Figure::Interrupts => "interrupts but the CPU's timer",
            Figure::Timer => "interrupts of the CPU's timer",
            Figure::Softirqs => "soft interrupts",
            Figure::Switches => "context switches",
        }
    }

    /// Whether the figure is a time. If not, it is a count a second.
    pub fn is_latency(self) -> bool {
        matches!(self, Figure::WakeupMedian | Figure::WakeupP99 | Figure::WakeupP999 | Figure::WakeupMax)
    }

    /// Its value in a sample: nanoseconds, or events a second; none where it could not be counted.
    fn of(self, sample: &Sample) -> Option<f64> {
        let histogram = sample.outcome.histogram.as_ref();
        let quantile = |q| histogram.map(|histogram: &Histogram| histogram.quantile_ns(q) as f64);
        let rate = |count: Option<u64>| Some(count? as f64 * 1e9 / sample.counted_ns.max(1) as f64);
        let events = &sample.events;
        match self {
            Figure::WakeupMedian => quantile(0.5),
            Figure::WakeupP99 => quantile(0.99),
            Figure::WakeupP999 => quantile(0.999),
            Figure::WakeupMax => histogram.map(|histogram| histogram.max_ns() as f64),
            Figure::Interrupts => rate(events.interrupts),
            Figure::Timer => rate(events.timer),
            Figure::Softirqs => rate(events.softirqs),
            Figure::Switches => rate(events.switches),
        }
    }
}

/// The finding from an interval. Lower is better for all figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The whole interval is on the better side.
    Better,
    /// The whole interval is on the worse side.
    Worse,
    /// The interval contains "no difference".
    NoDifferenceShown,
    /// Too few blocks for an interval.
    TooFewBlocks,
}

/// The comparison of one figure in two states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Which figure.
    pub figure: Figure,
    /// The median over the blocks in the base state. For the maximum, the highest value of all blocks.
    pub base: f64,
    /// The figure of the other state.
    pub other: f64,
    /// `other / base` for a latency, `other - base` (a second) for a count.
    pub effect: f64,
    /// The interval of `effect`, which covers at least 95 %.
    pub interval: Option<(f64, f64)>,
    /// Blocks in which both states were measured.
    pub blocks: usize,
    /// The finding from the interval.
    pub finding: Finding,
}

/// The effect of one rule: what changes without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleEffect {
    /// The rule.
    pub rule: String,
    /// The state without the rule compared with all rules applied.
    pub effects: Vec<Effect>,
}

impl RuleEffect {
    /// The effect on one figure, if it was measured.
    pub fn of(&self, figure: Figure) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.figure == figure)
    }
}

/// Compares all figures of `other` with `base`.
pub fn effects(samples: &[&Sample], base: &State, other: &State) -> Vec<Effect> {
    Figure::ALL.into_iter().filter_map(|figure| effect(samples, figure, base, other)).collect()
}

/// Every rule's effects. Rules that are shown to help come first, then the order is by how much the 99th
/// percentile rises without the rule.
pub fn ablation(samples: &[&Sample], rules: &[String]) -> Vec<RuleEffect> {
    let of = |rule: &String| RuleEffect {
        rule: rule.clone(),
        effects: effects(samples, &State::Applied, &State::Without(rule.clone())),
    };
    let mut all: Vec<RuleEffect> = rules.iter().map(of).filter(|rule| !rule.effects.is_empty()).collect();
    let key = |rule: &RuleEffect| rule.of(Figure::WakeupP99).map_or(0.0, |effect| effect.effect);
    all.sort_by(|one, other| key(other).total_cmp(&key(one)));
    all
}

fn effect(samples: &[&Sample], figure: Figure, base: &State, other: &State) -> Option<Effect> {
    let values = |state: &State, block: u32| -> Vec<f64> {
        let own = samples.iter().filter(|sample| sample.block == block && sample.state == *state);
        own.filter_map(|sample| figure.of(sample)).collect()
    };
    let last = samples.iter().map(|sample| sample.block).max()?;
    let blocks: Vec<Block> =
        (0..=last).map(|block| Block { base: values(base, block), other: values(other, block) }).collect();
    let level = |side: fn(&Block) -> &Vec<f64>| {
        let all: Vec<f64> = blocks.iter().flat_map(side).copied().collect();
        match figure {
            Figure::WakeupMax => all.into_iter().max_by(f64::total_cmp),
            _ => median(&all),
        }
    };
    let (effect, interval, paired, same) = if figure.is_latency() {
        let found = ratio(&blocks)?;
        (found.ratio, found.interval, found.blocks, 1.0)
    } else {
        let found = difference(&blocks)?;
        (found.difference, found.interval, found.blocks, 0.0)
    };
    let finding = match interval {
        None => Finding::TooFewBlocks,
        Some((_, high)) if high < same => Finding::Better,
        Some((low, _)) if low > same => Finding::Worse,
        Some(_) => Finding::NoDifferenceShown,
    };
    let (base, other) = (level(|block| &block.base)?, level(|block| &block.other)?);
    Some(Effect { figure, base, other, effect, interval, blocks: paired, finding })
}

#[cfg(test)]
mod tests {
    use super::super::record::example::samples;
    use super::super::results::{Verification, example};
    use super::*;
    use measure::Verdict;

    fn verified(blocks: u32) -> Verification {
        example(samples(blocks))
    }

    #[test]
    fn applied_is_set_against_as_found_block_by_block() {
        let found = verified(6).effects;
        let p99 = found.iter().find(|effect| effect.figure == Figure::WakeupP99).unwrap();
        assert!((p99.effect - 0.5).abs() < 0.01, "{p99:?}");
        assert_eq!((p99.finding, p99.blocks), (Finding::Better, 6));
        let interrupts = found.iter().find(|effect| effect.figure == Figure::Interrupts).unwrap();
        assert_eq!((interrupts.effect, interrupts.interval), (-20.0, Some((-20.0, -20.0))));
        assert_eq!(interrupts.finding, Finding::Better);
        assert!(!found.iter().any(|effect| effect.figure == Figure::Switches), "they were not counted");
        let few = verified(5).effects;
        assert!(
            few.iter().all(|effect| effect.finding == Finding::TooFewBlocks && effect.interval.is_none())
        );
    }

    #[test]
    fn rules_are_sorted_by_what_is_lost_without_them() {
        let mut verification = verified(6);
        verification.rules.push("never-measured".into());
        verification.conclude();
        let found = verification.ablation;
        let names: Vec<&str> = found.iter().map(|rule| rule.rule.as_str()).collect();
        assert_eq!(names, ["good", "idle"]);
        assert_eq!(found[0].of(Figure::WakeupP99).unwrap().finding, Finding::Worse);
        assert_eq!(found[1].of(Figure::WakeupP99).unwrap().finding, Finding::NoDifferenceShown);
        assert_eq!(found[1].of(Figure::Interrupts), None);
    }

    #[test]
    fn a_discarded_sample_is_in_no_effect() {
        let clean = verified(6);
        let mut all = samples(6);
        let mut noisy = all.iter().find(|sample| sample.measured.state == State::Applied).unwrap().clone();
        noisy.verdict = Verdict::Discarded("40 % of the CPUs' time was stolen".into());
        let mut histogram = Histogram::new();
        histogram.record_many_ns(1 << 30, 1000);
        noisy.measured.outcome.histogram = Some(histogram);
        all.insert(1, noisy);
        let found = example(all);
        assert_eq!((found.samples.len(), found.counted().len()), (25, 24));
        assert_eq!((found.effects, found.ablation), (clean.effects, clean.ablation));
    }
}
