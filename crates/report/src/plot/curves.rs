//! A curve with logarithmic axes: one line for each environment.

use maud::{Markup, html};
use measure::Unit;

use crate::units;

use super::scale::{LogAxis, drawable};
use super::{Series, WIDTH, frame, number};

/// One environment's line.
pub(crate) struct Line {
    pub(crate) series: Series,
    /// Points by rising x. A point that cannot be drawn leaves a gap.
    pub(crate) points: Vec<(f64, f64)>,
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 250.0;
const HEIGHT: f64 = 292.0;

/// The plot; `None` if no point can be drawn. The y axis also covers `y_range`, so that plots side by side have
/// the same scale.
pub(crate) fn draw(
    label: &str,
    x_title: &str,
    unit: &Unit,
    lines: &[Line],
    y_range: &[f64],
) -> Option<Markup> {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(x, y)| drawable(*x) && drawable(*y));
    let x_axis = LogAxis::around(points().map(|point| point.0), 2.0, LEFT, RIGHT)?;
    let y_axis = LogAxis::around(points().map(|p| p.1).chain(y_range.iter().copied()), 2.0, BOTTOM, TOP)?;
    let x_ticks = if x_title.ends_with("bytes") { x_axis.binary_ticks(8) } else { x_axis.ticks(8) };
    Some(frame(
        HEIGHT,
        label,
        html! {
            @for tick in x_ticks {
                @let x = number(x_axis.at(tick));
                line class="grid" x1=(x) x2=(x) y1=(number(TOP)) y2=(number(BOTTOM)) {}
                text class="tick" x=(x) y=(number(BOTTOM + 16.0)) text-anchor="middle" { (units::place(tick, x_title)) }
            }
            @for tick in y_axis.ticks(10) {
                @let y = y_axis.at(tick);
                line class="grid" x1=(number(LEFT)) x2=(number(RIGHT)) y1=(number(y)) y2=(number(y)) {}
                text class="tick" x=(number(LEFT - 6.0)) y=(number(y + 4.0)) text-anchor="end" { (units::exact(tick, unit)) }
            }
            rect class="border" x=(number(LEFT)) y=(number(TOP)) width=(number(RIGHT - LEFT)) height=(number(BOTTOM - TOP)) {}
            text class="axis" x=(number((LEFT + RIGHT) / 2.0)) y=(number(HEIGHT - 8.0)) text-anchor="middle" { (units::text(x_title)) }
            @for line in lines { (draw_line(line, &x_axis, &y_axis, x_title, unit)) }
        },
    ))
}

fn draw_line(line: &Line, x_axis: &LogAxis, y_axis: &LogAxis, x_title: &str, unit: &Unit) -> Markup {
    let mut path = String::new();
    let mut pen_down = false;
    for (x, y) in &line.points {
        let inside = drawable(*x) && drawable(*y);
        if inside {
            let command = if pen_down { 'L' } else { 'M' };
            path.push_str(&format!("{command}{} {}", number(x_axis.at(*x)), number(y_axis.at(*y))));
        }
        pen_down = inside;
    }
    let mark = if line.series.emulated { crate::EMULATED_MARK } else { "" };
    html! {
        path class=(line.series.class("line")) d=(path) {}
        @for (x, y) in line.points.iter().filter(|(x, y)| drawable(*x) && drawable(*y)) {
            g {
                title { (line.series.name) ", " (units::place(*x, x_title)) ": " (units::value(*y, unit)) (mark) }
                (line.series.marker(x_axis.at(*x), y_axis.at(*y)))
            }
        }
    }
}
