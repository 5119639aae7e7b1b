//! Limits on what was found.
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use traffic::results::Run;

use super::tables::GENERATOR_LATE;
use crate::exit::Usage;

/// A file of limits:
///
/// ```toml
/// [[limit]]
/// frame_bytes_with_fcs = "64"   # a size or mix, as in --sizes; left out: every one
/// min_throughput_mpps = 1.0     # the zero-loss rate that the search found
/// min_maximum_mpps = 2.0
/// percent_of_throughput = 50    # latency at this share of it (0: idle)
/// max_p99_us = 100.0
/// ```
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    limit: Vec<Limit>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    frame_bytes_with_fcs: Option<String>,
    min_throughput_mpps: Option<f64>,
    min_maximum_mpps: Option<f64>,
    percent_of_throughput: Option<u8>,
    max_p99_us: Option<f64>,
}

impl Gate {
    /// Reads a file of limits.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Self::parse(&text).map_err(|error| Usage(format!("{}: {error}", file.display())).into())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let gate: Gate = toml::from_str(text).map_err(|error| error.to_string())?;
        if gate.limit.iter().any(|limit| limit.max_p99_us.is_some() != limit.percent_of_throughput.is_some())
        {
            return Err("max_p99_us and percent_of_throughput belong together".into());
        }
        Ok(gate)
    }

    /// Every limit that was not held, or that nothing was measured for.
    pub fn missed(&self, run: &Run) -> Vec<String> {
        self.limit.iter().flat_map(|limit| limit.missed(run)).collect()
    }
}

impl Limit {
    fn missed(&self, run: &Run) -> Vec<String> {
        let mut missed = Vec::new();
        let mut any = false;
        let wanted = self.frame_bytes_with_fcs.as_ref();
        let sizes = run.sizes.iter();
        for size in sizes.filter(|size| wanted.is_none_or(|wanted| *wanted == size.frame_bytes_with_fcs)) {
            any = true;
            let mut check = |what: &str, held: bool, is: String| {
                if !held {
                    missed.push(format!("{} bytes: {what}, but it is {is}", size.frame_bytes_with_fcs));
                }
            };
            if let Some(least) = self.min_throughput_mpps {
                let is = size.search.throughput().map(|load| load.frames_per_second() as f64 / 1e6);
                let text = is.map_or_else(|| "unknown".to_owned(), |is| format!("{is:.3}"));
                check(&format!("throughput at least {least} Mpps"), is.is_some_and(|is| is >= least), text);
            }
            if let Some(least) = self.min_maximum_mpps {
                let is = size.maximum.received_fps / 1e6;
                check(&format!("maximum at least {least} Mpps"), is >= least, format!("{is:.3}"));
            }
            if let (Some(percent), Some(most)) = (self.percent_of_throughput, self.max_p99_us) {
                let at = size.latency.iter().find(|latency| latency.percent_of_throughput == percent);
                let known = at.and_then(|latency| latency.histogram.as_ref());
                let is = known.map(|histogram| histogram.quantile_ns(0.99) as f64 / 1e3);
                let why = if at.is_some() { GENERATOR_LATE } else { "not measured" };
                let text = is.map_or_else(|| why.to_owned(), |is| format!("{is:.1}"));
                check(
                    &format!("99 % within {most} µs at {percent} %"),
                    is.is_some_and(|is| is <= most),
                    text,
                );
            }
        }
        if !any {
            let wanted = wanted.map_or("any", String::as_str);
            missed.push(format!("{wanted}: no such size was measured"));
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_nonsense_is_refused() {
        assert_eq!(
            Gate::parse("[[limit]]\nframe_bytes_with_fcs = \"64\"\nmin_throughput_mpps = 1.0")
                .unwrap()
                .limit
                .len(),
            1
        );
        for wrong in [
            "",
            "[[limit]]\nmin_mpps = 1",
            "[[limit]]\nmax_p99_us = 5.0",
            "[[limit]]\npercent_of_throughput = 300",
        ] {
            assert!(Gate::parse(wrong).is_err(), "{wrong}");
        }
    }
}
