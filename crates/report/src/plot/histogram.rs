//! Distributions of latencies: one strip for each environment over the same axis, with the maximum marked. Counts
//! are on a logarithmic scale, so that one late event in a million is visible.

use maud::{Markup, html};
use measure::{Histogram, Unit};

use crate::units;

use super::scale::LogAxis;
use super::{Series, WIDTH, frame, number};

/// One environment's distribution.
pub(crate) struct Strip<'a> {
    pub(crate) series: Series,
    pub(crate) histogram: &'a Histogram,
}

const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 14.0;
const TITLE: f64 = 20.0;
const STRIP: f64 = 74.0;
const GAP: f64 = 10.0;
/// Bars over the whole axis: each some four units wide.
const BINS: usize = 105;

/// The plot; `None` if all strips are empty.
pub(crate) fn draw(label: &str, strips: &[Strip]) -> Option<Markup> {
    let extremes = strips
        .iter()
        .filter(|strip| strip.histogram.count() > 0)
        .flat_map(|strip| [strip.histogram.min_ns().max(1) as f64, strip.histogram.max_ns().max(1) as f64]);
    let axis = LogAxis::around(extremes, 4.0, LEFT, RIGHT)?;
    let most = strips.iter().flat_map(|strip| bins(&axis, strip.histogram)).max().unwrap_or(1).max(1);
    let bottom = strips.len() as f64 * (TITLE + STRIP + GAP) - GAP;
    Some(frame(
        bottom + 38.0,
        label,
        html! {
            @for tick in axis.ticks(8) {
                @let x = number(axis.at(tick));
                @for place in 0..strips.len() {
                    @let base = base_of(place);
                    line class="grid" x1=(x) x2=(x) y1=(number(base - STRIP)) y2=(number(base)) {}
                }
                text class="tick" x=(x) y=(number(bottom + 15.0)) text-anchor="middle" { (units::exact(tick, &Unit::Nanos)) }
            }
            text class="axis" x=(number((LEFT + RIGHT) / 2.0)) y=(number(bottom + 33.0)) text-anchor="middle" { "latency; height: count, logarithmic" }
            @for (place, strip) in strips.iter().enumerate() { (draw_strip(&axis, strip, base_of(place), most)) }
        },
    ))
}

fn base_of(place: usize) -> f64 {
    (place as f64 + 1.0) * (TITLE + STRIP + GAP) - GAP
}

fn bins(axis: &LogAxis, histogram: &Histogram) -> Vec<u64> {
    let mut bins = vec![0u64; BINS];
    for (value_ns, count) in histogram.buckets_ns() {
        let share = (axis.at(value_ns.max(1) as f64) - LEFT) / (RIGHT - LEFT);
        let bin = ((share * BINS as f64) as usize).min(BINS - 1);
        bins[bin] = bins[bin].saturating_add(count);
    }
    bins
}

/// A count's height. One event must be seen: it stands a little above nothing.
fn height(count: u64, most: u64) -> f64 {
    match count {
        0 => 0.0,
        _ => (STRIP - 8.0) * (1.0 + (count as f64).log10()) / (1.0 + (most as f64).log10()),
    }
}

fn draw_strip(axis: &LogAxis, strip: &Strip, base: f64, most: u64) -> Markup {
    let histogram = strip.histogram;
    let width = (RIGHT - LEFT) / BINS as f64;
    let mut path = String::new();
    for (bin, count) in bins(axis, histogram).into_iter().enumerate().filter(|(_, count)| *count > 0) {
        let (x, y) = (LEFT + bin as f64 * width, base - height(count, most));
        path.push_str(&format!("M{x:.1} {base:.1}V{y:.1}H{:.1}V{base:.1}Z", x + width - 0.6));
    }
    let mark = if strip.series.emulated { crate::EMULATED_MARK } else { "" };
    let max = axis.at(histogram.max_ns().max(1) as f64);
    let at = |nanos| format!("{}{mark}", units::nanos(nanos));
    let counts = (0..20).map(|power| 10u64.pow(power)).filter(|count| *count <= most);
    let every = if most >= 100_000 { 2 } else { 1 };
    html! {
        text class="label" x=(number(LEFT)) y=(number(base - STRIP - 6.0)) { (strip.series.name) }
        text class="figure" x=(number(RIGHT)) y=(number(base - STRIP - 6.0)) text-anchor="end" {
            @if histogram.count() == 0 { "no sample" } @else {
                "median " (at(histogram.median_ns())) ", p99 " (at(histogram.quantile_ns(0.99)))
                ", max " (at(histogram.max_ns())) " of " (units::count(histogram.count()))
            }
        }
        @for count in counts.step_by(every) {
            @let y = base - height(count, most);
            line class="grid" x1=(number(LEFT)) x2=(number(RIGHT)) y1=(number(y)) y2=(number(y)) {}
            @if height(count, most) < STRIP - 4.0 {
                text class="tick small" x=(number(LEFT - 5.0)) y=(number(y + 3.5)) text-anchor="end" { (short(count)) }
            }
        }
        path class=(strip.series.class("area")) d=(path) {}
        line class="base" x1=(number(LEFT)) x2=(number(RIGHT)) y1=(number(base)) y2=(number(base)) {}
        @if histogram.count() > 0 {
            g class="maximum" {
                title { (strip.series.name) ": maximum " (at(histogram.max_ns())) " of " (histogram.count()) " samples" }
                line class=(strip.series.class("max")) x1=(number(max)) x2=(number(max)) y1=(number(base - STRIP + 14.0)) y2=(number(base)) {}
                polygon class=(strip.series.class("maxhead")) points=(format!("{},{} {},{} {},{}", number(max - 4.0), number(base - STRIP + 12.0), number(max + 4.0), number(base - STRIP + 12.0), number(max), number(base - STRIP + 19.0))) {}
                text class="tick" x=(number(max - 7.0)) y=(number(base - STRIP + 19.0)) text-anchor="end" { "max " (at(histogram.max_ns())) }
            }
        }
    }
}

fn short(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{:.0e}", count as f64),
    }
}
