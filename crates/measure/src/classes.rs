//! Finds out whether a sample consists of one class or of two that differ much.
use crate::statistics::median;

/// The middle of the upper class over that of the lower, at the least.
const HIGH_OVER_LOW: f64 = 2.0;
/// A class has at least one of this many values.
const FEW: usize = 20;

/// The limit between two classes of a sample: the split with the largest variance of the logarithms between them
/// (Otsu, 1979). Returns `None` if the median of one class is less than twice that of the other, or if one class has
/// only a few per cent of the values.
pub fn limit_between(sample: &[f64]) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let logs: Vec<f64> = sorted.iter().map(|value| value.max(1.0).ln()).collect();
    let total: f64 = logs.iter().sum();
    let mut below = 0.0;
    let between = |(at, value): (usize, &f64)| {
        below += value;
        let (low, high) = ((at + 1) as f64, (logs.len() - at - 1) as f64);
        let apart = below / low - (total - below) / high;
        (at + 1, low * high * apart * apart)
    };
    let cuts = logs.iter().enumerate().take(logs.len().saturating_sub(1)).map(between);
    let (lows, _) = cuts.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let (low, high) = sorted.split_at(lows);
    let few = low.len().min(high.len()) * FEW < sorted.len();
    let differ = median(high)? > HIGH_OVER_LOW * median(low)?;
    (differ && !few).then(|| (low[lows - 1] + high[0]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_and_a_few_elsewhere_are_of_one_class() {
        let mut sample = [28.0, 31.0, 45.0, 26.0].repeat(20);
        assert_eq!(limit_between(&sample), None);
        sample.extend([130.0; 3]);
        assert_eq!(limit_between(&sample), None);
        assert_eq!(limit_between(&[]), None);
        assert_eq!(limit_between(&[5.0]), None);
    }

    #[test]
    fn two_classes_are_told_apart_whatever_pauses_are_among_them() {
        let mut sample = [vec![28.0; 60], vec![131.0; 40]].concat();
        assert_eq!(limit_between(&sample), Some(79.5));
        sample.push(5000.0);
        assert_eq!(limit_between(&sample), Some(79.5));
    }
}
