//! All slowdowns of one environment: a row for each group, a dot for each metric, a line at 1.

use maud::{Markup, html};

use super::scale::{LogAxis, drawable};
use super::{Series, WIDTH, number};

/// One group's metrics.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) dots: Vec<Dot>,
}

/// One metric.
pub(crate) struct Dot {
    pub(crate) ratio: f64,
    /// Whether a difference was shown. A dot without one is pale.
    pub(crate) is_shown: bool,
    /// The metric and its finding.
    pub(crate) words: String,
}

const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 10.0;
const TOP: f64 = 20.0;
const HEIGHT: f64 = 16.0;

/// The chart; `None` if no ratio can be drawn. The axis also covers `range`, so that the charts of all
/// environments have the same scale.
pub(crate) fn draw(label: &str, series: &Series, rows: &[Row], range: &[f64]) -> Option<Markup> {
    let ratios = || rows.iter().flat_map(|row| &row.dots).map(|dot| dot.ratio);
    if !ratios().any(drawable) {
        return None;
    }
    let axis = LogAxis::around(ratios().chain([1.0]).chain(range.iter().copied()), 1.25, LEFT, RIGHT)?;
    let bottom = TOP + rows.len() as f64 * HEIGHT;
    let label = crate::units::text(label);
    Some(html! {
        svg class="dots" role="img" aria-label=(label) viewBox=(format!("0 0 {WIDTH} {}", number(bottom + 4.0))) {
            title { (label) }
            @for tick in axis.ticks(6) {
                line class="grid" x1=(number(axis.at(tick))) x2=(number(axis.at(tick))) y1=(number(TOP - 3.0)) y2=(number(bottom)) {}
                text class="tick" x=(number(axis.at(tick))) y=(number(TOP - 8.0)) text-anchor="middle" { (super::factor_label(tick)) }
            }
            line class="one" x1=(number(axis.at(1.0))) x2=(number(axis.at(1.0))) y1=(number(TOP - 3.0)) y2=(number(bottom)) {}
            @for (place, row) in rows.iter().enumerate() {
                @let y = TOP + (place as f64 + 0.5) * HEIGHT;
                text class="label" x="4" y=(number(y + 4.0)) { (row.name) }
                @for dot in row.dots.iter().filter(|dot| drawable(dot.ratio)) {
                    circle class=(series.class(if dot.is_shown { "marker" } else { "marker pale" })) cx=(number(axis.at(dot.ratio))) cy=(number(y)) r="3.2" {
                        title { (dot.words) }
                    }
                }
            }
        }
    })
}
