//! The summary at the end of a run of `rfc2544`: one line for each size.

use report::units;
use traffic::results::{Latency, Run, SearchResult, SizeResult};

use super::tables::{at_the_most, is_software};

/// The lines of the summary; empty if no size was finished.
pub fn lines(run: &Run) -> Vec<String> {
    let heading = (!run.sizes.is_empty()).then(|| "\nIn short".to_owned());
    let line = |size: &SizeResult| format!("  {} bytes: {}", size.frame_bytes_with_fcs, said(run, size));
    heading.into_iter().chain(run.sizes.iter().map(line)).collect()
}

fn said(run: &Run, size: &SizeResult) -> String {
    let mega = |fps: f64| format!("{} Mpps", units::significant(fps / 1e6));
    let most = size.maximum.received_fps;
    let searched = match (&size.search, size.search.rate_fps()) {
        (SearchResult::Maximum { .. }, _) => format!("{} at most, whatever was lost", mega(most)),
        (_, None) => format!("no throughput was found; {} at most, whatever was lost", mega(most)),
        (search, Some(rate)) if at_the_most(search) => {
            format!("throughput at least {}, the most that was offered", mega(rate))
        }
        (_, Some(rate)) => format!("throughput {}, of {} at most", mega(rate), mega(most)),
    };
    let limit = if is_software(run) {
        String::new()
    } else {
        format!(", limited by the {}", size.maximum.bottleneck())
    };
    // The latency at the highest requested load is more informative than the latency of an idle path.
    let latency = size.latency.iter().rev().find_map(|at: &Latency| Some((at, at.histogram.as_ref()?)));
    let latency = latency.map_or_else(String::new, |(at, times)| {
        let load = match at.percent_of_throughput {
            0 => "idle".to_owned(),
            percent => format!("at {percent} % of it"),
        };
        let [middle, most] = [times.median_ns(), times.quantile_ns(0.99)].map(units::nanos);
        format!("; latency {load} {middle} in the median, 99 % within {most}")
    });
    let doubt = if size.maximum.disturbed { " (disturbed: perhaps too low)" } else { "" };
    format!("{searched}{limit}{latency}{doubt}")
}
