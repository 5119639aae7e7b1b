//! The plots, each with its explanation.

use std::collections::BTreeMap;

use maud::{Markup, html};
use measure::Group;

use crate::plot::{self, Series};
use crate::units;
use crate::view::{Curve, Row, View, environment_name, finding};

/// The shown environments as series, in the order of their columns.
pub(super) fn series(view: &View) -> Vec<Series> {
    let place = |name: &str| view.results.environments.iter().position(|e| e.name == name).unwrap_or(0);
    view.environments
        .iter()
        .map(|e| Series { name: environment_name(e), place: place(&e.name), emulated: e.emulated })
        .collect()
}

/// Under a plot's name: which environments it has no line of, so that none is left out silently.
fn missing(series: &[Series], drawn: impl Fn(usize) -> bool) -> String {
    let lacking: Vec<&str> = series
        .iter()
        .enumerate()
        .filter(|(column, _)| !drawn(*column))
        .map(|(_, series)| series.name.as_str())
        .collect();
    if lacking.is_empty() { String::new() } else { format!("; not measured: {}", lacking.join(", ")) }
}

fn figures(plots: Vec<(String, Markup)>) -> Markup {
    let lone = if plots.len() == 1 { "lone" } else { "" };
    html! {
        div class="plots" {
            @for (caption, plot) in plots {
                figure class=(lone) { figcaption { (caption) } (plot) }
            }
        }
    }
}

/// The explanation of the plots, once for all groups.
pub(super) fn how_to_read(view: &View) -> Markup {
    let base = view.results.base().map(|base| units::text(&base.name)).unwrap_or_default();
    html! {
        h3 { "Slowdowns" }
        p {
            "Times the cost of " (base) ", logarithmic: right of the line is worse. A whisker is the interval (at least 95 %) over the \
             starts of the environments; one that crosses the line shows no difference. Worst first; an emulated CPU only \
             orders what the others leave equal. All groups have the same scale."
        }
        h3 { "Curves" }
        p {
            "The same scale on all plots of a unit: a step is where an array leaves a cache, and what opens between two \
             patterns past the last cache is what address translation and memory cost."
        }
        h3 { "Distributions" }
        p {
            "Every event is counted, from the instant at which it was due to the maximum. The height is the count on a logarithmic scale: one late \
             event is visible beside thousands in time. The marked maximum is what was seen, not what is possible."
        }
        h3 { "Tables" }
        p { (super::tables::EXPLANATION) }
    }
}

/// The group's slowdowns, worst first.
pub(super) fn ratios(view: &View, group: Group) -> Markup {
    let Some(base) = view.results.base() else { return html! {} };
    let series = series(view);
    let row = |row: &Row| plot::ratios::Row {
        title: units::text(&row.spec.title),
        points: row
            .cells
            .iter()
            .zip(&series)
            .filter_map(|(cell, series)| {
                let comparison = cell.comparison()?;
                Some(plot::ratios::Point {
                    series: series.clone(),
                    ratio: comparison.slowdown,
                    interval: comparison.interval,
                    finding: finding(comparison),
                })
            })
            .collect(),
    };
    // One scale for all groups: a point farther right is worse in every chart.
    let compared = view
        .analysis
        .comparisons
        .iter()
        .filter(|c| view.results.metric(&c.metric).is_some_and(|spec| spec.curve.is_none()));
    let range: Vec<f64> = compared.map(|comparison| comparison.slowdown).collect();
    let rows = view.rows(group).into_iter().chain(view.distributions(group));
    let rows: Vec<_> = rows.map(|metric| row(&metric)).filter(|row| !row.points.is_empty()).collect();
    let label = format!("Slowdowns of group {group} against {}, worst first", base.name);
    let Some(plot) = plot::ratios::draw(&label, &rows, &range) else { return html! {} };
    let compared: Vec<Series> = series.iter().filter(|s| s.place != 0).cloned().collect();
    let caption = format!("Slowdown against {}", units::text(&base.name));
    html! { (plot::legend(&compared)) (figures(vec![(caption, plot)])) }
}

/// The group's curves.
pub(super) fn curves(view: &View, group: Group) -> Markup {
    let series = series(view);
    let curves = view.curves(group);
    // Curves in the same unit and over the same x are drawn to the same scale, to be laid side by side.
    let mut ranges: BTreeMap<(String, &str), Vec<f64>> = BTreeMap::new();
    for curve in &curves {
        let values = curve.points.iter().flat_map(|(_, row)| row.cells.iter());
        let values = values.filter_map(|cell| cell.summary()).map(|summary| summary.median);
        ranges.entry(scale_of(curve)).or_default().extend(values);
    }
    let plots: Vec<(String, Markup)> = curves
        .iter()
        .filter_map(|curve| {
            let unit = &curve.points.first()?.1.spec.unit;
            let label = format!("{} by {}, logarithmic axes", curve.name, curve.x_title);
            let lines = lines(curve, &series);
            let range = &ranges[&scale_of(curve)];
            let plot = plot::curves::draw(&label, curve.x_title, unit, &lines, range)?;
            let drawn = |column: usize| lines[column].points.iter().any(|point| point.1.is_finite());
            Some((units::text(curve.name) + &missing(&series, drawn), plot))
        })
        .collect();
    html! { @if !plots.is_empty() { h3 { "Curves" } (plot::legend(&series)) (figures(plots)) } }
}

fn scale_of<'a>(curve: &Curve<'a>) -> (String, &'a str) {
    let unit = curve.points.first().map(|point| point.1.spec.unit.to_string());
    (unit.unwrap_or_default(), curve.x_title)
}

fn lines(curve: &Curve, series: &[Series]) -> Vec<plot::curves::Line> {
    let line = |(column, series): (usize, &Series)| plot::curves::Line {
        series: series.clone(),
        points: curve
            .points
            .iter()
            .map(|(x, row)| (*x, row.cells[column].summary().map_or(f64::NAN, |summary| summary.median)))
            .collect(),
    };
    series.iter().enumerate().map(line).collect()
}

/// The group's distributions to the maximum.
pub(super) fn distributions(view: &View, group: Group) -> Markup {
    let series = series(view);
    let mut plots = Vec::new();
    for row in view.distributions(group) {
        let strips: Vec<plot::histogram::Strip> = row
            .cells
            .iter()
            .zip(&series)
            .filter_map(|(cell, series)| {
                let histogram = cell.summary()?.histogram.as_ref()?;
                Some(plot::histogram::Strip { series: series.clone(), histogram })
            })
            .collect();
        let label = format!("Histograms of {}, one strip an environment, the maximum marked", row.spec.title);
        let drawn = |column: usize| row.cells[column].summary().is_some_and(|s| s.histogram.is_some());
        let caption = units::text(&row.spec.title) + &missing(&series, drawn);
        plots.extend(plot::histogram::draw(&label, &strips).map(|plot| (caption, plot)));
    }
    html! { @if !plots.is_empty() { h3 { "Distributions to the maximum" } (plot::legend(&series)) (figures(plots)) } }
}
