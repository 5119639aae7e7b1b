//! Two runs side by side.

use maud::{Markup, html};
use measure::compare::Finding;

use crate::diff::Diff;
use crate::plot::{self, Series};
use crate::{EMULATED_MARK, EMULATED_MEANING, units};

/// The most rows with which a plot stays readable; the table has all rows.
const DRAWN: usize = 40;

pub(super) fn section(diff: &Diff) -> Markup {
    html! {
        section {
            p { strong { "Before: " } (units::text(&diff.before.started)) ". " strong { "After: " } (units::text(&diff.after.started)) "." }
            p { "Two runs share no moment: each is resampled on its own, so that intervals are wider than within one run." }
            @if diff.comparisons.iter().any(|comparison| comparison.emulated) {
                p class="note" { (EMULATED_MARK) " " (EMULATED_MEANING) }
            }
            h2 { "What differs between the runs" }
            (facts(diff))
            h2 { "Slowdown, after against before" }
            @if diff.comparisons.is_empty() { p { "No metric was measured in both runs in the same environment." } }
            @else { (plots(diff)) (table(diff)) }
            @if !diff.only_in_one.is_empty() {
                h2 { "In one run alone" }
                ul class="plain" { @for words in &diff.only_in_one { li { (words) } } }
            }
        }
    }
}

fn facts(diff: &Diff) -> Markup {
    let shown = |text: &str| if text.is_empty() { "unknown or none".into() } else { units::text(text) };
    html! {
        @if diff.facts.is_empty() { p { "No fact that was recorded." } } @else {
            (super::page::scrolling(html! {
                table {
                    thead { tr { th scope="col" { "fact" } th scope="col" { "before" } th scope="col" { "after" } } }
                    tbody {
                        @for fact in &diff.facts {
                            tr { th scope="row" { (units::text(&fact.name)) } td { (shown(&fact.before)) } td { (shown(&fact.after)) } }
                        }
                    }
                }
            }))
        }
    }
}

/// One plot an environment: what differs, worst first.
fn plots(diff: &Diff) -> Markup {
    let environments = diff.after.environments.iter().enumerate();
    let plots: Vec<(String, Markup)> = environments
        .filter_map(|(place, environment)| {
            let of = diff
                .comparisons
                .iter()
                .filter(|c| c.environment == environment.name && c.finding != Finding::NoDifferenceShown);
            let rows: Vec<plot::ratios::Row> = of
                .take(DRAWN)
                .map(|c| {
                    let mark = if c.emulated { EMULATED_MARK } else { "" };
                    let name = format!("{}{mark}", units::text(&c.environment));
                    let title = diff.spec(c).map_or(c.metric.as_str(), |spec| &spec.title);
                    plot::ratios::Row {
                        title: units::text(title),
                        points: vec![plot::ratios::Point {
                            series: Series { name, place, emulated: c.emulated },
                            ratio: c.slowdown,
                            interval: c.interval,
                            finding: Diff::finding(c),
                        }],
                    }
                })
                .collect();
            let name = crate::view::environment_name(environment);
            let label = format!("Slowdowns after against before in {name}, worst first");
            Some((name, plot::ratios::draw(&label, &rows, &[])?))
        })
        .collect();
    html! {
        @if plots.is_empty() { p { "No difference shown in any metric." } }
        div class="plots" { @for (caption, plot) in plots { figure { figcaption { (caption) } (plot) } } }
    }
}

fn table(diff: &Diff) -> Markup {
    html! {
        details {
            summary { "All " (diff.comparisons.len()) " comparisons" }
            (super::page::scrolling(html! {
                table {
                    thead { tr { th scope="col" { "what" } th scope="col" { "where" } th scope="col" { "slowdown [≥ 95 %]" } } }
                    tbody {
                        @for comparison in &diff.comparisons {
                            tr {
                                th scope="row" { (units::text(diff.spec(comparison).map_or(comparison.metric.as_str(), |spec| &spec.title))) }
                                td { (units::text(&comparison.environment)) @if comparison.emulated { (EMULATED_MARK) } }
                                (super::tables::finding(comparison))
                            }
                        }
                    }
                }
            }))
        }
    }
}
