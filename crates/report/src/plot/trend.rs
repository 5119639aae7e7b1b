//! A plot of costs over several runs: one line for each metric, runs at equal distances, and a logarithmic axis of
//! ratios.

use maud::{Markup, html};

use super::scale::{LogAxis, drawable};
use super::{Series, WIDTH, frame, number};

/// The costs of one metric, one for each run; a gap if a run has no cost.
pub(crate) struct Line {
    pub(crate) series: Series,
    pub(crate) costs: Vec<Option<f64>>,
}

const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 190.0;
const HEIGHT: f64 = 216.0;
/// Numbers of runs that fit below the axis.
const NUMBERED: usize = 20;

/// The plot; `None` if no cost can be drawn.
pub(crate) fn draw(label: &str, lines: &[Line]) -> Option<Markup> {
    let costs = lines.iter().flat_map(|line| line.costs.iter().flatten().copied());
    let runs = lines.iter().map(|line| line.costs.len()).max()?;
    if !costs.clone().any(drawable) {
        return None;
    }
    let axis = LogAxis::around(costs.chain([1.0]), 1.25, BOTTOM, TOP)?;
    let every = runs.div_ceil(NUMBERED).max(1);
    Some(frame(
        HEIGHT,
        label,
        html! {
            @for tick in axis.ticks(8) {
                @let y = number(axis.at(tick));
                line class="grid" x1=(number(LEFT)) x2=(number(RIGHT)) y1=(y) y2=(y) {}
                text class="tick" x=(number(LEFT - 6.0)) y=(number(axis.at(tick) + 4.0)) text-anchor="end" { (super::factor_label(tick)) }
            }
            line class="one" x1=(number(LEFT)) x2=(number(RIGHT)) y1=(number(axis.at(1.0))) y2=(number(axis.at(1.0))) {}
            @for run in (0..runs).step_by(every) {
                text class="tick" x=(number(at(run, runs, LEFT, RIGHT))) y=(number(BOTTOM + 16.0)) text-anchor="middle" { (run + 1) }
            }
            @for line in lines { (draw_line(line, runs, &axis)) }
        },
    ))
}

/// A run's place between two ends, half a step from each.
fn at(run: usize, runs: usize, left: f64, right: f64) -> f64 {
    left + (run as f64 + 0.5) / runs as f64 * (right - left)
}

fn draw_line(line: &Line, runs: usize, axis: &LogAxis) -> Markup {
    let places: Vec<Option<(f64, f64)>> = line
        .costs
        .iter()
        .enumerate()
        .map(|(run, cost)| {
            cost.filter(|cost| drawable(*cost)).map(|cost| (at(run, runs, LEFT, RIGHT), axis.at(cost)))
        })
        .collect();
    let mark = if line.series.emulated { crate::EMULATED_MARK } else { "" };
    html! {
        path class=(line.series.class("line")) d=(path(&places)) {}
        @for (run, place) in places.iter().enumerate() {
            @if let (Some((x, y)), Some(cost)) = (place, line.costs[run]) {
                g {
                    title { (line.series.name) ", run " (run + 1) ": " (crate::units::factor(cost)) (mark) }
                    (line.series.marker(*x, *y))
                }
            }
        }
    }
}

/// The path of a line through all places, interrupted at gaps.
fn path(places: &[Option<(f64, f64)>]) -> String {
    let mut path = String::new();
    let mut command = 'M';
    for place in places {
        command = match place {
            Some((x, y)) => {
                path.push_str(&format!("{command}{} {}", number(*x), number(*y)));
                'L'
            }
            None => 'M',
        };
    }
    path
}

const SPARK_WIDTH: f64 = 96.0;
const SPARK_HEIGHT: f64 = 22.0;

/// A small line of costs for a table's cell; `None` if fewer than two costs can be drawn.
pub(crate) fn spark(label: &str, series: &Series, costs: &[Option<f64>]) -> Option<Markup> {
    let found = costs.iter().flatten().copied();
    if found.clone().filter(|cost| drawable(*cost)).count() < 2 {
        return None;
    }
    // Below a factor of 1.25 a change looks as small as it is.
    let axis = LogAxis::around(found, 1.25, SPARK_HEIGHT - 4.0, 4.0)?;
    let places: Vec<Option<(f64, f64)>> = costs
        .iter()
        .enumerate()
        .map(|(run, cost)| {
            let cost = cost.filter(|cost| drawable(*cost))?;
            Some((at(run, costs.len(), 2.0, SPARK_WIDTH - 2.0), axis.at(cost)))
        })
        .collect();
    let label = crate::units::text(label);
    Some(html! {
        svg class="spark" role="img" aria-label=(label) viewBox=(format!("0 0 {SPARK_WIDTH} {SPARK_HEIGHT}")) {
            title { (label) }
            path class=(series.class("line")) d=(path(&places)) {}
            @for (x, y) in places.iter().flatten() {
                circle class=(series.class("marker")) cx=(number(*x)) cy=(number(*y)) r="2" {}
            }
        }
    })
}
