//! Order statistics of small samples.

/// The quantile of a sample by linear interpolation between order statistics (type 7 of Hyndman and Fan,
/// "Sample Quantiles in Statistical Packages", 1996). Returns `None` for an empty sample.
pub fn quantile(sample: &[f64], quantile: f64) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, quantile)
}

/// The [`quantile`] of a sample that is already sorted.
pub fn quantile_of_sorted(sorted: &[f64], quantile: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = quantile.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The median. Returns `None` for an empty sample.
pub fn median(sample: &[f64]) -> Option<f64> {
    quantile(sample, 0.5)
}

/// The spread as this project prints it: half the distance between the quartiles, divided by the median, so that "± 3
/// %" contains the middle half of the trials. Returns `None` if the spread is undefined.
pub fn relative_spread(sample: &[f64]) -> Option<f64> {
    let middle = median(sample)?;
    let half = (quantile(sample, 0.75)? - quantile(sample, 0.25)?) / 2.0;
    (middle != 0.0).then(|| half / middle.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_the_published_definition() {
        let sample = [3.0, 1.0, 2.0, 4.0];
        assert_eq!(median(&sample), Some(2.5));
        assert_eq!(quantile(&sample, 0.25), Some(1.75));
        assert_eq!(quantile(&sample, 0.0), Some(1.0));
        assert_eq!(quantile(&sample, 1.0), Some(4.0));
        assert_eq!(median(&[]), None);
        assert_eq!(relative_spread(&[2.0, 2.0, 2.0]), Some(0.0));
    }
}
