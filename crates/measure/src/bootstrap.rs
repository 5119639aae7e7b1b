//! The ratio of two environments and its interval, by a bootstrap over the highest repeated level (rule 8).
//!
//! The unit that is resampled is the block: one start of every environment, measured within seconds of each
//! other, so that what the machine did meanwhile hits both and leaves the ratio. A block's figure is the log
//! of the ratio of its medians; the comparison's figure is the median over the blocks.
//!
//! A plain percentile bootstrap of few blocks is too narrow. The quantiles are therefore widened by the
//! factor that a t interval has over a normal one ("expanded percentile" interval: Hesterberg, "What Teachers
//! Should Know About the Bootstrap", The American Statistician 69(4), 2015, section 5.3), and fewer than
//! [`MIN_BLOCKS`] blocks give no interval at all: the whole range of 5 values holds their median in only
//! 1 - 2/2^5 = 94 % of cases.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::statistics::{median, quantile_of_sorted};

/// The fewest blocks that carry a 95 % interval.
pub const MIN_BLOCKS: usize = 6;

/// Resamples drawn. The widened quantile for 6 blocks is 0.0024, so that some twenty resamples lie beyond it.
const RESAMPLES: usize = 10_000;

/// One block: the accepted trials' values of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Values in the base environment.
    pub base: Vec<f64>,
    /// Values in the other.
    pub other: Vec<f64>,
}

/// other / base, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioEstimate {
    /// The median over the blocks of the ratio of the medians.
    pub ratio: f64,
    /// Low and high end; none with fewer than [`MIN_BLOCKS`] blocks.
    pub interval: Option<(f64, f64)>,
    /// Blocks that held both sides.
    pub blocks: usize,
}

/// The ratio other / base over blocks. Blocks that lack a side or hold a value that is not positive (no
/// ratio exists) are passed over; none where none is left. The same seed gives the same interval.
pub fn ratio(blocks: &[Block], seed: u64) -> Option<RatioEstimate> {
    let logs: Vec<f64> = blocks.iter().filter_map(log_ratio).collect();
    let ratio = median(&logs)?.exp();
    let interval = (logs.len() >= MIN_BLOCKS).then(|| {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut resample = vec![0.0; logs.len()];
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                resample.fill_with(|| logs[rng.random_range(0..logs.len())]);
                median(&resample).expect("as many as blocks, so not empty")
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let tail = expanded_tail(logs.len());
        let end = |q| quantile_of_sorted(&medians, q).expect("not empty").exp();
        (end(tail), end(1.0 - tail))
    });
    Some(RatioEstimate { ratio, interval, blocks: logs.len() })
}

fn log_ratio(block: &Block) -> Option<f64> {
    let (base, other) = (median(&block.base)?, median(&block.other)?);
    (base > 0.0 && other > 0.0 && base.is_finite() && other.is_finite()).then(|| (other / base).ln())
}

/// The lower quantile that replaces 0.025 for `n` blocks.
fn expanded_tail(n: usize) -> f64 {
    let degrees = (n - 1) as f64;
    let t = StudentsT::new(0.0, 1.0, degrees).expect("at least one degree of freedom").inverse_cdf(0.975);
    Normal::standard().cdf(-t * (n as f64 / degrees).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, LogNormal};

    fn blocks(n: usize, trials: usize, ratio: f64, rng: &mut StdRng) -> Vec<Block> {
        // Skewed noise within a block, and a block effect of its own on each side (a boot's luck).
        let within = LogNormal::new(0.0, 0.05).unwrap();
        let between = LogNormal::new(0.0, 0.08).unwrap();
        (0..n)
            .map(|_| {
                let mut side = |level: f64| {
                    let level = level * between.sample(rng);
                    (0..trials).map(|_| level * within.sample(rng)).collect()
                };
                Block { base: side(100.0), other: side(100.0 * ratio) }
            })
            .collect()
    }

    /// Share of repetitions in which the interval holds the true ratio.
    fn coverage(n: usize, ratio: f64) -> f64 {
        let mut rng = StdRng::seed_from_u64(7);
        let runs = 300;
        let held = (0..runs)
            .filter(|&seed| {
                let (low, high) =
                    super::ratio(&blocks(n, 2, ratio, &mut rng), seed).unwrap().interval.unwrap();
                low <= ratio && ratio <= high
            })
            .count();
        held as f64 / runs as f64
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_promise() {
        for n in [6, 8, 12] {
            let covered = coverage(n, 1.3);
            assert!(covered >= 0.94, "{n} blocks: {covered}");
        }
    }

    #[test]
    fn a_real_difference_is_found() {
        let mut rng = StdRng::seed_from_u64(1);
        let found = super::ratio(&blocks(8, 2, 2.0, &mut rng), 1).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!(low > 1.5 && high < 2.6 && (found.ratio / 2.0 - 1.0).abs() < 0.15, "{found:?}");
    }

    #[test]
    fn few_blocks_give_a_ratio_and_no_interval() {
        let mut rng = StdRng::seed_from_u64(1);
        let found = super::ratio(&blocks(5, 2, 1.0, &mut rng), 1).unwrap();
        assert_eq!((found.interval, found.blocks), (None, 5));
    }

    #[test]
    fn what_has_no_ratio_is_passed_over() {
        let lacking = Block { base: vec![], other: vec![1.0] };
        let zero = Block { base: vec![0.0], other: vec![1.0] };
        assert_eq!(ratio(&[lacking, zero], 1), None);
    }

    #[test]
    fn the_tail_for_few_blocks_is_wider_than_the_nominal_one() {
        // t(0.975, 5) = 2.5706; * sqrt(6/5) = 2.8159; Phi(-2.8159) = 0.00243
        assert!((expanded_tail(6) - 0.00243).abs() < 0.0001, "{}", expanded_tail(6));
        assert!((expanded_tail(1000) - 0.025).abs() < 0.0005);
    }
}
