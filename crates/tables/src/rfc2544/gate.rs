//! Names of the figures that a gate may limit.
use measure::Unit;
use report::gate::Figure;
use traffic::results::{Latency, Run, SizeResult};

use super::tables::GENERATOR_LATE;

/// `throughput.SIZE` and `maximum.SIZE` in frames a second, `latency.PERCENT.SIZE` in nanoseconds at a share of the
/// throughput (0: idle); SIZE is a size or mix as in `--sizes`.
pub fn figures(run: &Run) -> Vec<Figure> {
    run.sizes.iter().flat_map(of_size).collect()
}

fn of_size(size: &SizeResult) -> Vec<Figure> {
    let name = &size.frame_bytes_with_fcs;
    let rate = |what: &str, value| Figure {
        metric: format!("{what}.{name}"),
        unit: Unit::Other("frames/s".into()),
        value,
        histogram: None,
        missed: None,
    };
    let throughput = size.search.throughput().map(|load| load.frames_per_second() as f64);
    let mut figures = vec![
        rate("throughput", throughput.ok_or_else(|| "the search found none".to_owned())),
        rate("maximum", Ok(size.maximum.received_fps)),
    ];
    figures.extend(size.latency.iter().map(|latency| of_latency(latency, name)));
    figures
}

fn of_latency(latency: &Latency, size: &str) -> Figure {
    let median = latency.histogram.as_ref().map(|histogram| histogram.median_ns() as f64);
    Figure {
        metric: format!("latency.{}.{size}", latency.percent_of_throughput),
        unit: Unit::Nanos,
        value: median.ok_or_else(|| GENERATOR_LATE.to_owned()),
        histogram: latency.histogram.clone(),
        missed: Some(latency.lost),
    }
}
