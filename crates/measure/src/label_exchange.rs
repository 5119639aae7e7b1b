//! An exact test of whether more metrics differ between two environments than chance explains.
//!
//! Of N metrics that do not differ, some are found to differ, each with the probability that its interval misses the
//! true value. The spread of their number cannot be taken from a binomial distribution: the metrics of one start have
//! common influences (the place of their pages, other programs), so they are found to differ together or not at all.
//! But if the two environments are alike, then within each block the labels could as well have been exchanged, for
//! all metrics at once. The test therefore exchanges the labels in every way, and the p-value is the share of ways in
//! which at least as many metrics differ. In at most that share of runs the p-value is below any significance level,
//! whatever the dependence between metrics (a permutation test with sign flips; Good, "Permutation, Parametric, and
//! Bootstrap Tests of Hypotheses", chapter 3).
//!
//! Whether a metric differs depends only on the signs of its blocks' log ratios: see [`crate::median_interval`].

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::median_interval::{self, rank};

/// The most exchanges of labels that are all tried; if there are more, this many are drawn at random.
const MOST_EXCHANGES: u64 = 1 << 13;

/// The result of the exchange of labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelExchange {
    /// The number of metrics with an interval.
    pub metrics: usize,
    /// The number of these metrics that differ.
    pub differing: usize,
    /// The average number that would differ by chance.
    pub expected: f64,
    /// The share of all exchanges in which at least as many metrics differ.
    pub p_value: f64,
    /// The smallest possible p-value with this number of blocks.
    pub least_p_value: f64,
}

/// Runs the test on each metric's log ratios by block; a block that a metric lacks is `None`. Metrics with fewer than
/// [`median_interval::MIN_VALUES`] ratios are left out; returns `None` if no metric remains.
pub fn exchange_labels(metrics: &[Vec<Option<f64>>], seed: u64) -> Option<LabelExchange> {
    let metrics: Vec<Signs> = metrics.iter().filter_map(|ratios| Signs::of(ratios)).collect();
    let blocks = metrics.iter().map(|signs| signs.blocks).max()?;
    let as_they_are = vec![0; blocks.div_ceil(WORD)];
    let found = difference(&metrics, &as_they_are);
    // To exchange every block is to exchange none: so the last one stays.
    let all = u32::try_from(blocks - 1).ok().and_then(|free| 1u64.checked_shl(free));
    let (as_many, tried) = match all.filter(|&all| all <= MOST_EXCHANGES) {
        Some(all) => ((0..all).filter(|&way| difference(&metrics, &[way]) >= found).count(), all),
        None => {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut draw = || -> Vec<u64> { as_they_are.iter().map(|_| rng.random()).collect() };
            let drawn = (1..MOST_EXCHANGES).filter(|_| difference(&metrics, &draw()) >= found);
            // The labels as they are count as one of the ways, so that the test keeps its level.
            (drawn.count() + 1, MOST_EXCHANGES)
        }
    };
    Some(LabelExchange {
        metrics: metrics.len(),
        differing: found.0,
        expected: metrics.iter().map(|signs| signs.chance).sum(),
        p_value: as_many as f64 / tried as f64,
        least_p_value: 1.0 / tried as f64,
    })
}

/// Blocks that one word of a set holds.
const WORD: usize = u64::BITS as usize;

/// How much metrics differ if the labels of a set of blocks are exchanged: how many do, and where that is the same, how
/// much the blocks of all of them agree. Without the agreement, a difference that every block shows would be as
/// frequent as a difference that all but one show.
fn difference(metrics: &[Signs], exchanged: &[u64]) -> (usize, u64) {
    let mut sum = (0, 0);
    for signs in metrics {
        let (above, below) = signs.if_exchanged(exchanged);
        sum.0 += usize::from(signs.ratios - above < signs.rank || signs.ratios - below < signs.rank);
        sum.1 += u64::from(above.abs_diff(below)).pow(2);
    }
    sum
}

/// The properties of a metric's blocks that decide whether it differs.
struct Signs {
    blocks: usize,
    /// Two sets of blocks, one bit for each block: blocks whose ratio is above 1, and blocks whose ratio is below 1.
    above: Vec<u64>,
    below: Vec<u64>,
    /// The number of blocks with a ratio, including the blocks whose ratio is 1.
    ratios: u32,
    rank: u32,
    chance: f64,
}

impl Signs {
    fn of(ratios: &[Option<f64>]) -> Option<Self> {
        let known = ratios.iter().flatten().count();
        let set = |is_in: fn(f64) -> bool| -> Vec<u64> {
            let bit = |(at, ratio): (usize, &Option<f64>)| u64::from(ratio.is_some_and(is_in)) << at;
            let word = |blocks: &[Option<f64>]| blocks.iter().enumerate().map(bit).sum();
            ratios.chunks(WORD).map(word).collect()
        };
        Some(Signs {
            blocks: ratios.len(),
            above: set(|ratio| ratio > 0.0),
            below: set(|ratio| ratio < 0.0),
            ratios: known as u32,
            rank: rank(known)? as u32,
            chance: 1.0 - median_interval::coverage(known)?,
        })
    }

    /// Ratios above and below 1. An interval leaves 1 out if the ratios that are not on one side of 1 are fewer
    /// than its rank.
    fn if_exchanged(&self, exchanged: &[u64]) -> (u32, u32) {
        let (mut above, mut below) = (0, 0);
        for ((up, down), swapped) in self.above.iter().zip(&self.below).zip(exchanged) {
            above += (up & !swapped | down & swapped).count_ones();
            below += (down & !swapped | up & swapped).count_ones();
        }
        (above, below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::{Block, ratio};
    use rand_distr::{Distribution, Normal};
    use statrs::distribution::{Binomial, DiscreteCDF};

    /// The level at which `scripts/prove.sh` asks, and the starts that it makes.
    const SIGNIFICANCE: f64 = 0.005;
    const BLOCKS: usize = 12;
    /// The number of metrics, in groups with common influences in each start.
    const METRICS: usize = 48;
    const GROUP: usize = 8;

    /// Log ratios of two like environments, the second slowed by `slowdown` in half of the metrics.
    fn run(rng: &mut StdRng, blocks: usize, slowdown: f64) -> Vec<Vec<Option<f64>>> {
        let noise = Normal::new(0.0, 0.02).unwrap();
        let luck: Vec<Vec<f64>> =
            (0..METRICS / GROUP).map(|_| (0..blocks).map(|_| 2.0 * noise.sample(rng)).collect()).collect();
        (0..METRICS)
            .map(|metric| {
                let slowed = if metric % 2 == 0 { slowdown.ln() } else { 0.0 };
                let ratios = (0..blocks).map(|b| Some(luck[metric / GROUP][b] + noise.sample(rng) + slowed));
                ratios.collect()
            })
            .collect()
    }

    fn share(runs: u32, mut fails: impl FnMut() -> bool) -> f64 {
        (0..runs).filter(|_| fails()).count() as f64 / f64::from(runs)
    }

    fn count(ratios: &[Vec<Option<f64>>]) -> usize {
        let signs: Vec<Signs> = ratios.iter().filter_map(|ratios| Signs::of(ratios)).collect();
        difference(&signs, &[0]).0
    }

    #[test]
    fn like_environments_fail_by_chance_in_at_most_the_share_that_is_promised() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut failed = [0.0; 2];
        for _ in 0..300 {
            let found = exchange_labels(&run(&mut rng, BLOCKS, 1.0), 1).unwrap();
            for (failed, significance) in failed.iter_mut().zip([0.05, SIGNIFICANCE]) {
                *failed += f64::from(u8::from(found.p_value <= significance)) / 300.0;
            }
        }
        // 300 runs: the standard error of a share of 0.05 is 0.013, of one of 0.005 it is 0.004.
        println!("{failed:?} of runs fail, of 0.05 and {SIGNIFICANCE} promised");
        assert!((0.02..0.09).contains(&failed[0]) && failed[1] <= 0.01, "{failed:?}");
    }

    #[test]
    fn a_count_that_is_held_against_a_binomial_fails_more_often() {
        let mut rng = StdRng::seed_from_u64(2);
        let chance = 1.0 - median_interval::coverage(BLOCKS).unwrap();
        let binomial = Binomial::new(chance, METRICS as u64).unwrap();
        let allowed = (0..).find(|&count| binomial.sf(count) <= SIGNIFICANCE).unwrap() as usize;
        let failed = share(3000, || count(&run(&mut rng, BLOCKS, 1.0)) > allowed);
        assert!(failed > 2.0 * SIGNIFICANCE, "{failed}: no need for more than a binomial");
        println!("held against a binomial {failed} of runs fail, of {SIGNIFICANCE} promised");
        // Six blocks and 19 of 20 metrics, as `make prove` once asked.
        let failed = share(3000, || count(&run(&mut rng, 6, 1.0)) > METRICS / 20);
        assert!(failed > 0.1, "{failed}");
        println!("held against 19 of 20 metrics {failed} of runs fail");
    }

    #[test]
    fn environments_that_are_not_alike_are_found() {
        let mut rng = StdRng::seed_from_u64(3);
        let found =
            share(50, || exchange_labels(&run(&mut rng, BLOCKS, 1.1), 1).unwrap().p_value <= SIGNIFICANCE);
        assert!(found > 0.75, "{found}");
    }

    #[test]
    fn the_count_is_that_of_the_intervals() {
        let mut rng = StdRng::seed_from_u64(4);
        let ratios = run(&mut rng, BLOCKS, 1.05);
        let differs = |ratios: &&Vec<Option<f64>>| {
            let block = |log: &Option<f64>| Block { base: vec![1.0], other: vec![log.unwrap().exp()] };
            let blocks: Vec<Block> = ratios.iter().map(block).collect();
            let (low, high) = ratio(&blocks).unwrap().interval.unwrap();
            low > 1.0 || high < 1.0
        };
        let found = exchange_labels(&ratios, 1).unwrap();
        assert_eq!(found.differing, ratios.iter().filter(differs).count());
        assert_eq!(found.metrics, METRICS);
        assert!((found.expected - METRICS as f64 * 158.0 / 4096.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn few_blocks_cannot_show_much_and_many_are_drawn() {
        let always = |blocks: usize| vec![vec![Some(0.1); blocks]; 5];
        let found = exchange_labels(&always(6), 1).unwrap();
        assert_eq!((found.differing, found.p_value, found.least_p_value), (5, 1.0 / 32.0, 1.0 / 32.0));
        let found = exchange_labels(&always(40), 1).unwrap();
        assert!(found.differing == 5 && found.p_value < 0.001, "{found:?}");
        assert_eq!(exchange_labels(&always(5), 1), None);
        assert_eq!(exchange_labels(&[], 1), None);
        // A metric that was measured in too few blocks, or whose values are equal, is no difference.
        let lacking = vec![vec![Some(0.0); 8], vec![None; 8]];
        let found = exchange_labels(&lacking, 1).unwrap();
        assert_eq!((found.metrics, found.differing, found.p_value), (1, 0, 1.0));
    }
}
