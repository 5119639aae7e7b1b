//! The ladder as a chart: CPU time a packet on each path, stacked by role, with the cost of the last piece as a
//! whisker.

use maud::{Markup, html};
use measure::Unit;
use measure::network::{FlowRecord, figures, rungs};

use super::table::path_name;
use crate::plot::{Series, WIDTH, frame, number};
use crate::units;
use crate::view::View;

const LEFT: f64 = 190.0;
const RIGHT: f64 = WIDTH - 62.0;
const TOP: f64 = 6.0;
const ROW: f64 = 24.0;
const BAR: f64 = 13.0;
/// The characters that fit left of the bars.
const NAME_WIDTH: usize = 30;

/// One path's bar.
struct Bar {
    name: String,
    emulated: bool,
    cost_ns: f64,
    own_interval: Option<(f64, f64)>,
    /// The cost of the path with one piece less, ns.
    below_ns: f64,
    /// The roles, each with its share of the cost.
    parts: Vec<(String, f64)>,
}

fn bars(view: &View, environment: &str, work: &FlowRecord) -> Vec<Bar> {
    let results = view.results;
    let rungs = rungs(results, environment, &work.work);
    let bars =
        rungs.into_iter().filter(|rung| rung.cost_ns.is_finite() && rung.cost_ns > 0.0).filter_map(|rung| {
            let flow =
                results.network.flows.iter().find(|f| f.path == rung.path.name && f.work == work.work)?;
            let found = figures(&results.network, environment, &flow.metric);
            let roles = found.map(|found| found.roles).unwrap_or_default();
            let sum: f64 = roles.iter().map(|(_, ns, ..)| ns).sum();
            let parts =
                roles.into_iter().map(|(role, ns, ..)| (role, if sum > 0.0 { ns / sum } else { 0.0 }));
            Some(Bar {
                name: path_name(rung.path),
                emulated: rung.path.emulated,
                cost_ns: rung.cost_ns,
                own_interval: rung.own_interval,
                below_ns: rung.cost_ns - rung.own_ns.unwrap_or(0.0),
                parts: parts.collect(),
            })
        });
    bars.collect()
}

/// The roles of a run, each with its colour.
pub(crate) fn roles(view: &View) -> Vec<Series> {
    let mut roles: Vec<Series> = Vec::new();
    for role in view.results.network.trials.iter().flat_map(|trial| &trial.cost.roles) {
        if roles.iter().all(|known| known.name != units::text(&role.role)) {
            roles.push(Series { name: units::text(&role.role), place: roles.len(), emulated: false });
        }
    }
    roles
}

/// The chart of one work; `None` if no cost was measured.
pub(crate) fn draw(view: &View, environment: &str, work: &FlowRecord, roles: &[Series]) -> Option<Markup> {
    let bars = bars(view, environment, work);
    // An emulated CPU's costs would press all others against the axis: its bars end there, the figure stands beside.
    let natives = || bars.iter().filter(|bar| !bar.emulated);
    let most = natives().map(|bar| bar.cost_ns).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { bars.iter().map(|bar| bar.cost_ns).fold(0.0, f64::max) };
    if most <= 0.0 {
        return None;
    }
    let at = |ns: f64| LEFT + (ns / (most * 1.05)).clamp(0.0, 1.0) * (RIGHT - LEFT);
    let label = format!("CPU time a packet of {} on each path, stacked by role", work.title);
    let height = TOP + bars.len() as f64 * ROW + 4.0;
    Some(frame(
        height,
        &label,
        html! {
            @for (place, bar) in bars.iter().enumerate() {
                @let top = TOP + place as f64 * ROW;
                @let middle = top + ROW / 2.0;
                @if place % 2 == 0 {
                    rect class="stripe" x="0" width=(number(WIDTH)) y=(number(top)) height=(number(ROW)) {}
                }
                text class="label small" x="4" y=(number(middle + 4.0)) { (cut(&bar.name)) }
                g {
                    title { (bar.name) ": " (units::value(bar.cost_ns, &Unit::Nanos)) }
                    (stacked(bar, roles, middle, &at))
                    @if let Some((low, high)) = bar.own_interval {
                        (whisker(at(bar.below_ns + low), at(bar.below_ns + high), middle))
                    }
                }
                text class="figure" x=(number(WIDTH - 4.0)) y=(number(middle + 4.0)) text-anchor="end" {
                    (units::value(bar.cost_ns, &Unit::Nanos)) @if bar.emulated { (crate::EMULATED_MARK) }
                }
            }
            line class="base" x1=(number(LEFT)) x2=(number(LEFT)) y1=(number(TOP)) y2=(number(height - 4.0)) {}
        },
    ))
}

fn stacked(bar: &Bar, roles: &[Series], middle: f64, at: &impl Fn(f64) -> f64) -> Markup {
    let mut from = 0.0;
    let parts = bar.parts.iter().map(|(role, share)| {
        let (low, high) = (at(from), at(from + share * bar.cost_ns));
        from += share * bar.cost_ns;
        let place = roles.iter().position(|series| series.name == units::text(role)).unwrap_or(0);
        let series = Series { name: units::text(role), place, emulated: bar.emulated };
        (series.class("area"), low, high - low)
    });
    let parts: Vec<(String, f64, f64)> = parts.collect();
    html! {
        @for (class, x, width) in parts {
            rect class=(class) x=(number(x)) y=(number(middle - BAR / 2.0)) width=(number(width)) height=(number(BAR)) {}
        }
    }
}

fn whisker(low: f64, high: f64, middle: f64) -> Markup {
    html! {
        line class="one" x1=(number(low)) x2=(number(high)) y1=(number(middle)) y2=(number(middle)) {}
        @for end in [low, high] {
            line class="one" x1=(number(end)) x2=(number(end)) y1=(number(middle - 4.0)) y2=(number(middle + 4.0)) {}
        }
    }
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME_WIDTH {
        return name.to_owned();
    }
    // The last piece is what the rung is about.
    let tail: Vec<char> = name.chars().rev().take(NAME_WIDTH - 1).collect();
    std::iter::once('…').chain(tail.into_iter().rev()).collect()
}
