//! Every figure.

use maud::{Markup, html};
use measure::compare::{Comparison, Finding, Summary};
use measure::{Group, MetricSpec};

use crate::view::{Cell, Row, View, environment_name};
use crate::{EMULATED_MARK, units};

use super::page::scrolling;

pub(super) const EXPLANATION: &str = "Median over all accepted trials ± half the distance between the quartiles; \
    slowdown with its interval (at least 95 %) over the starts, or that no difference was shown. ! marks figures with noisy trials among them.";

pub(super) fn group(view: &View, group: Group) -> Markup {
    let (rows, distributions, curves) = (view.rows(group), view.distributions(group), view.curves(group));
    html! {
        @if !(rows.is_empty() && distributions.is_empty() && curves.is_empty()) { h3 { "All figures" } }
        @if !rows.is_empty() { (scrolling(plain(view, &rows))) }
        @if !distributions.is_empty() { (scrolling(tails(view, &distributions))) }
        @for curve in curves {
            details {
                summary { (units::text(curve.name)) ", " (curve.points.len()) " points" }
                @let rows: Vec<Row> = curve.points.into_iter().map(|(_, row)| row).collect();
                (scrolling(plain(view, &rows)))
            }
        }
    }
}

fn is_base(view: &View, place: usize) -> bool {
    view.results.base().is_some_and(|base| view.environments[place].name == base.name)
}

fn plain(view: &View, rows: &[Row]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "what" }
                @for (place, environment) in view.environments.iter().enumerate() {
                    th scope="col" { (environment_name(environment)) }
                    @if !is_base(view, place) { th scope="col" { "slowdown [≥ 95 %]" } }
                }
            } }
            tbody {
                @for row in rows {
                    tr data-find=(search_words(row.spec)) {
                        th scope="row" title=(units::text(row.spec.id.as_str())) { (units::text(&row.spec.title)) }
                        @for (place, cell) in row.cells.iter().enumerate() {
                            @match cell {
                                Cell::Measured(summary, _) => (figure(summary, row.spec, view.environments[place].emulated)),
                                Cell::Absent(reason) => { td class="absent" title=(units::text(&reason.to_string())) { "absent, see below" } },
                                Cell::Unknown => { td class="absent" { "not measured" } },
                            }
                            @if !is_base(view, place) { (beside(cell)) }
                        }
                    }
                }
            }
        }
    }
}

/// The words by which a metric is found.
pub(super) fn search_words(spec: &MetricSpec) -> String {
    format!("{} {}", units::text(spec.id.as_str()), units::text(&spec.title))
}

fn beside(cell: &Cell) -> Markup {
    match cell {
        Cell::Measured(_, Some(comparison)) => finding(comparison),
        Cell::Measured(_, None) => html! { td class="absent" { "no ratio: the base has none" } },
        _ => html! { td {} },
    }
}

fn figure(summary: &Summary, spec: &MetricSpec, emulated: bool) -> Markup {
    let class = if emulated { "figure emulated-cell" } else { "figure" };
    html! {
        td class=(class) title=(format!("{} trials in {} starts", summary.trials, summary.blocks)) {
            (units::value(summary.median, &spec.unit)) @if emulated { (EMULATED_MARK) }
            " " span class="spread" { (units::spread(summary.relative_spread)) }
            @if summary.noisy > 0 { " !" }
        }
    }
}

pub(super) fn finding(comparison: &Comparison) -> Markup {
    let kind = match comparison.finding {
        Finding::Slower => "slower",
        Finding::Faster => "faster",
        Finding::NoDifferenceShown => "same",
        Finding::TooFewBlocks => "few",
    };
    let emulated = if comparison.emulated { " emulated-cell" } else { "" };
    html! {
        td class=(format!("finding {kind}{emulated}")) {
            @if comparison.finding == Finding::NoDifferenceShown {
                "no difference shown" @if comparison.emulated { (EMULATED_MARK) }
            } @else {
                strong { (units::factor(comparison.slowdown)) @if comparison.emulated { (EMULATED_MARK) } }
            }
            @if comparison.finding == Finding::TooFewBlocks { ", too few starts (" (comparison.blocks) ")" }
            @if let Some(interval) = comparison.interval { " " span class="interval" { (units::interval(interval)) } }
        }
    }
}

fn tails(view: &View, rows: &[Row]) -> Markup {
    html! {
        table {
            caption { "beyond max: with none of n samples above it, the share above the maximum is below 3/n (95 %)." }
            thead { tr {
                @for head in ["what", "where", "min", "median", "p99", "p99.9", "max", "samples", "watched", "missed", "beyond max", "median's slowdown [≥ 95 %]"] {
                    th scope="col" { (head) }
                }
            } }
            tbody {
                @for row in rows {
                    @for (cell, environment) in row.cells.iter().zip(&view.environments) {
                        tr data-find=(search_words(row.spec)) {
                            th scope="row" { (units::text(&row.spec.title)) }
                            td { (environment_name(environment)) }
                            (tail(cell, environment.emulated))
                        }
                    }
                }
            }
        }
    }
}

fn tail(cell: &Cell, emulated: bool) -> Markup {
    let mark = if emulated { EMULATED_MARK } else { "" };
    let class = if emulated { "figure emulated-cell" } else { "figure" };
    let Cell::Measured(summary, comparison) = cell else {
        let why = match cell {
            Cell::Absent(reason) => units::text(&reason.to_string()),
            _ => "not measured".into(),
        };
        return html! { td class="absent" colspan="10" { (why) } };
    };
    let Some(histogram) = &summary.histogram else {
        return html! { td class="absent" colspan="10" { "no histogram" } };
    };
    let quantiles = [0.5, 0.99, 0.999].map(|quantile| histogram.quantile_ns(quantile));
    html! {
        @for nanos in [histogram.min_ns(), quantiles[0], quantiles[1], quantiles[2], histogram.max_ns()] {
            td class=(class) { (units::nanos(nanos)) (mark) }
        }
        td class=(class) { (units::count(histogram.count())) }
        td class=(class) { (units::watched(summary.watched_ns)) }
        td class=(class) { (units::count(summary.missed)) }
        td class=(class) { (units::exceedance_bound(histogram.count())) }
        @match comparison {
            Some(comparison) => (finding(comparison)),
            None => { td {} },
        }
    }
}
