use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};

/// A histogram of latencies in ns to three significant digits, with an exact maximum; serialised as its non-empty
/// buckets.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Buckets", into = "Buckets")]
pub struct Histogram {
    hdr: Hdr<u64>,
    max_ns: u64,
}

/// The serialised form: pairs of (value in ns, count), ascending, and the exact extremes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Buckets {
    max_ns: u64,
    buckets_ns: Vec<(u64, u64)>,
}

/// The error for an invalid serialised histogram.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum HistogramError {
    /// A bucket is outside of the range.
    #[error("a histogram bucket at {value_ns} ns exceeds the largest value a histogram can hold")]
    Range {
        /// The value of the bucket, in ns.
        value_ns: u64,
    },
    /// The maximum is not in the highest bucket.
    #[error("a histogram's maximum of {max_ns} ns is not in its highest bucket, which is at {highest_ns} ns")]
    Maximum {
        /// The maximum, in ns.
        max_ns: u64,
        /// The largest value that belongs to the highest bucket, in ns; 0 without buckets.
        highest_ns: u64,
    },
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// A line, not its thousands of buckets.
impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (count, median_ns, max_ns) = (self.count(), self.median_ns(), self.max_ns());
        write!(f, "Histogram {{ count: {count}, median_ns: {median_ns}, max_ns: {max_ns} }}")
    }
}

impl Histogram {
    /// Five minutes: beyond any latency that a trial can see.
    const HIGHEST_NS: u64 = 300_000_000_000;

    /// An empty histogram.
    pub fn new() -> Self {
        let hdr = Hdr::new_with_bounds(1, Self::HIGHEST_NS, 3).expect("constant bounds are valid");
        Histogram { hdr, max_ns: 0 }
    }

    /// Counts one latency. Does not allocate. A latency beyond the range counts at the range's end; the maximum stays
    /// exact.
    pub fn record_ns(&mut self, latency_ns: u64) {
        self.hdr.saturating_record(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Counts `count` latencies of this value at once. Does not allocate.
    pub fn record_many_ns(&mut self, latency_ns: u64, count: u64) {
        self.hdr.saturating_record_n(latency_ns, count);
        if count > 0 {
            self.max_ns = self.max_ns.max(latency_ns);
        }
    }

    /// Adds all of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        self.hdr.add(&other.hdr).expect("all histograms have the same bounds");
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The number of latencies that were counted.
    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// The largest latency, exact; 0 if the histogram is empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The smallest latency, to three digits; 0 if the histogram is empty.
    pub fn min_ns(&self) -> u64 {
        if self.hdr.is_empty() { 0 } else { self.hdr.min() }
    }

    /// The value at a quantile in 0..=1; 0 if the histogram is empty. The value is never above the observed maximum.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.hdr.value_at_quantile(quantile).min(self.max_ns)
    }

    /// The median.
    pub fn median_ns(&self) -> u64 {
        self.quantile_ns(0.5)
    }

    /// The mean; 0 if the histogram is empty.
    pub fn mean_ns(&self) -> f64 {
        self.hdr.mean()
    }

    /// Non-empty buckets, ascending: (value in ns, count).
    pub fn buckets_ns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.hdr.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

impl From<Histogram> for Buckets {
    fn from(histogram: Histogram) -> Self {
        Buckets { max_ns: histogram.max_ns, buckets_ns: histogram.buckets_ns().collect() }
    }
}

impl TryFrom<Buckets> for Histogram {
    type Error = HistogramError;

    fn try_from(buckets: Buckets) -> Result<Self, HistogramError> {
        let mut histogram = Histogram::new();
        let Buckets { max_ns, buckets_ns } = buckets;
        let mut highest_ns = 0;
        for (value_ns, count) in buckets_ns.into_iter().filter(|(_, count)| *count > 0) {
            histogram.hdr.record_n(value_ns, count).map_err(|_| HistogramError::Range { value_ns })?;
            highest_ns = highest_ns.max(histogram.hdr.highest_equivalent(value_ns));
        }
        // Values beyond the range are counted at its end.
        let may_exceed = !histogram.hdr.is_empty() && max_ns > Self::HIGHEST_NS;
        let too_high = max_ns > highest_ns && !may_exceed;
        if too_high || max_ns < histogram.hdr.lowest_equivalent(highest_ns) {
            return Err(HistogramError::Maximum { max_ns, highest_ns });
        }
        histogram.max_ns = max_ns;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialised_form_keeps_counts_quantiles_and_the_exact_maximum() {
        let mut histogram = Histogram::new();
        for latency_ns in 1..=100_000u64 {
            histogram.record_ns(latency_ns);
        }
        histogram.record_ns(1_234_567);
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(back.count(), 100_001);
        assert_eq!(back.max_ns(), 1_234_567);
        assert_eq!(back.quantile_ns(1.0), 1_234_567);
        for quantile in [0.01, 0.5, 0.99] {
            assert_eq!(back.quantile_ns(quantile), histogram.quantile_ns(quantile));
            let exact = quantile * 100_000.0;
            assert!((back.quantile_ns(quantile) as f64 / exact - 1.0).abs() < 0.002);
        }
    }

    #[test]
    fn a_bucket_beyond_the_range_is_refused() {
        let text = r#"{"max_ns":1,"buckets_ns":[[18446744073709551615,1]]}"#;
        assert!(serde_json::from_str::<Histogram>(text).is_err());
    }

    #[test]
    fn a_maximum_outside_of_the_highest_bucket_is_refused() {
        let read = |text: &str| serde_json::from_str::<Histogram>(text).map_err(|error| error.to_string());
        for (text, said) in [
            (
                r#"{"buckets_ns":[[2531,3],[2000,1]],"max_ns":1980}"#,
                "maximum of 1980 ns is not in its highest bucket",
            ),
            (r#"{"buckets_ns":[[2531,3],[2000,1]],"max_ns":2532}"#, "which is at 2531 ns"),
            (r#"{"buckets_ns":[],"max_ns":7}"#, "which is at 0 ns"),
            (r#"{"buckets_ns":[[9,0]],"max_ns":9}"#, "which is at 0 ns"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        for text in [
            r#"{"buckets_ns":[[2531,3],[2000,1]],"max_ns":2530}"#,
            r#"{"buckets_ns":[],"max_ns":0}"#,
            r#"{"buckets_ns":[[300000000000,1]],"max_ns":400000000000}"#,
        ] {
            read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        let mut beyond = Histogram::new();
        beyond.record_ns(u64::MAX);
        let text = serde_json::to_string(&beyond).unwrap();
        assert_eq!(read(&text).unwrap().max_ns(), u64::MAX);
    }

    #[test]
    fn merging_adds_counts_and_takes_the_larger_maximum() {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        a.record_ns(10);
        b.record_ns(1_000_003);
        a.merge(&b);
        assert_eq!((a.count(), a.max_ns(), a.min_ns()), (2, 1_000_003, 10));
    }
}
