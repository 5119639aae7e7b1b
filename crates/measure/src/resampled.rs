//! Computes the exact bootstrap distribution of a median.
//!
//! Drawing n values with replacement from n and taking the median can only give an order statistic (n odd)
//! or the middle of two (n even), each with a probability that follows from the binomial distribution
//! (Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 7(1), 1979, section 3).
//! The distribution that thousands of random resamples would approach is therefore computed directly: without a seed,
//! without a Monte-Carlo error, and fast enough to analyse hundreds of metrics while the user waits.

use statrs::distribution::{Binomial, DiscreteCDF};
use statrs::function::factorial::ln_binomial;

/// Below this an order statistic is never the median; leaves it out, so that the work grows with n, not n².
const NEGLIGIBLE: f64 = 1e-12;

/// The possible values of a resample's median, ascending, each with the probability that the median is at most this
/// value.
pub(crate) struct MedianDistribution {
    values: Vec<f64>,
    at_most: Vec<f64>,
}

impl MedianDistribution {
    /// The distribution over the resamples of this sample, which must not be empty.
    pub(crate) fn of(sample: &[f64]) -> Self {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut atoms = if sorted.len() % 2 == 1 { odd(&sorted) } else { even(&sorted) };
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        let whole: f64 = atoms.iter().map(|atom| atom.1).sum();
        let mut sum = 0.0;
        let mut add = |mass: f64| {
            sum += mass / whole;
            sum
        };
        MedianDistribution {
            values: atoms.iter().map(|atom| atom.0).collect(),
            at_most: atoms.iter().map(|atom| add(atom.1)).collect(),
        }
    }

    /// The smallest value x with a probability of at least `tail` that this median minus an independent `other` is at
    /// most x.
    pub(crate) fn low_end_of_difference(&self, other: &Self, tail: f64) -> f64 {
        let (mut low, mut high) = self.range_of_difference(other);
        // The probability is a staircase in the difference: halve until no double lies between.
        loop {
            let middle = low + (high - low) / 2.0;
            if !(low < middle && middle < high) {
                return high;
            }
            if self.difference_at_most(other, middle) < tail { low = middle } else { high = middle }
        }
    }

    /// The largest value x with a probability of at least `tail` that this median minus an independent `other` is at
    /// least x.
    pub(crate) fn high_end_of_difference(&self, other: &Self, tail: f64) -> f64 {
        -other.low_end_of_difference(self, tail)
    }

    fn range_of_difference(&self, other: &Self) -> (f64, f64) {
        let ends = |d: &Self| (d.values[0], d.values[d.values.len() - 1]);
        let ((low, high), (other_low, other_high)) = (ends(self), ends(other));
        (low - other_high, high - other_low)
    }

    /// P(self - other <= difference)
    fn difference_at_most(&self, other: &Self, difference: f64) -> f64 {
        let mut before = 0.0;
        let mut sum = 0.0;
        for (value, at_most) in other.values.iter().zip(&other.at_most) {
            let place = self.values.partition_point(|&own| own <= value + difference);
            let own_at_most = place.checked_sub(1).map_or(0.0, |last| self.at_most[last]);
            sum += (at_most - before) * own_at_most;
            before = *at_most;
        }
        sum
    }
}

/// P(the r-th smallest of n draws is the i-th of the sample), for i in 0..n.
fn order_statistic(n: usize, r: usize) -> Vec<f64> {
    // The r-th smallest is at or below the i-th exactly if at least r draws are.
    let at_most = |i: usize| {
        Binomial::new(i as f64 / n as f64, n as u64).expect("a share is a probability").sf(r as u64 - 1)
    };
    let mut before = 0.0;
    (1..=n)
        .map(|i| {
            let now = at_most(i);
            now - std::mem::replace(&mut before, now)
        })
        .collect()
}

fn odd(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    sorted.iter().copied().zip(order_statistic(n, n / 2 + 1)).filter(|atom| atom.1 > NEGLIGIBLE).collect()
}

fn even(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let half = (n / 2) as i32;
    let power = |count: usize| (count as f64 / n as f64).powi(half);
    let ln_ways = ln_binomial(n as u64, n as u64 / 2);
    let scaled = |probability: f64| (ln_ways + probability.ln()).exp();
    let lower_middle = order_statistic(n, n / 2);
    let upper_middle = order_statistic(n, n / 2 + 1);
    let mut atoms = Vec::new();
    for i in (0..n).filter(|&i| lower_middle[i] > NEGLIGIBLE) {
        let mut apart = 0.0;
        for j in (i + 1..n).filter(|&j| upper_middle[j] > NEGLIGIBLE) {
            // Half of the draws up to the i-th, one at least on it; the other half from the j-th on.
            let mass = scaled((power(i + 1) - power(i)) * (power(n - j) - power(n - j - 1)));
            apart += mass;
            atoms.push(((sorted[i] + sorted[j]) / 2.0, mass));
        }
        atoms.push((sorted[i], (lower_middle[i] - apart).max(0.0)));
    }
    atoms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::median;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn at_most(distribution: &MedianDistribution, value: f64) -> f64 {
        let place = distribution.values.partition_point(|&own| own <= value + 1e-9);
        place.checked_sub(1).map_or(0.0, |last| distribution.at_most[last])
    }

    #[test]
    fn agrees_with_drawing_every_possible_resample() {
        // 4^4 and 5^5 resamples, each as likely as the others; a tie among the values.
        for sample in [vec![1.0, 2.0, 4.0, 8.0], vec![3.0, 1.0, 3.0, 9.0, 27.0]] {
            let n = sample.len();
            let all: Vec<f64> = (0..n.pow(n as u32))
                .map(|code| median(&(0..n).map(|d| sample[code / n.pow(d as u32) % n]).collect::<Vec<_>>()))
                .map(Option::unwrap)
                .collect();
            let exact = MedianDistribution::of(&sample);
            for value in &all {
                let share = all.iter().filter(|m| *m <= value).count() as f64 / all.len() as f64;
                assert!((at_most(&exact, *value) - share).abs() < 1e-9, "{sample:?} at {value}");
            }
        }
    }

    #[test]
    fn agrees_with_random_resamples_of_a_larger_sample() {
        let mut rng = StdRng::seed_from_u64(5);
        for n in [30, 31] {
            let sample: Vec<f64> = (0..n).map(|i| f64::from(i).powf(1.7)).collect();
            let exact = MedianDistribution::of(&sample);
            let draws = 2000;
            let mut drawn: Vec<f64> = (0..draws)
                .map(|_| {
                    let resample: Vec<f64> =
                        (0..n).map(|_| sample[rng.random_range(0..n) as usize]).collect();
                    median(&resample).unwrap()
                })
                .collect();
            drawn.sort_by(f64::total_cmp);
            for place in [100, 500, 1000, 1500, 1900] {
                let share = drawn.iter().filter(|m| **m <= drawn[place]).count() as f64 / f64::from(draws);
                assert!((at_most(&exact, drawn[place]) - share).abs() < 0.04, "{n} values, place {place}");
            }
        }
    }

    #[test]
    fn the_ends_are_mirror_images() {
        let sample = [-5.0, -2.0, -1.0, 1.0, 2.0, 5.0];
        let d = MedianDistribution::of(&sample);
        let ends = |other: &MedianDistribution| {
            (d.low_end_of_difference(other, 0.01), d.high_end_of_difference(other, 0.01))
        };
        let ((low, high), (alone, alone_high)) = (ends(&d), ends(&MedianDistribution::of(&[0.0])));
        assert!((low + high).abs() < 1e-9 && (alone + alone_high).abs() < 1e-9, "{low} {high}");
        assert!(low < alone, "{low} {alone}");
    }

    #[test]
    fn many_blocks_take_no_time_and_a_narrow_place() {
        let sample: Vec<f64> = (0..5000).map(f64::from).collect();
        let d = MedianDistribution::of(&sample);
        let low = d.low_end_of_difference(&MedianDistribution::of(&[0.0]), 0.025);
        assert!((low - 2430.0).abs() < 5.0, "{low}"); // 2499.5 - 1.96*sqrt(5000)/2
    }
}
