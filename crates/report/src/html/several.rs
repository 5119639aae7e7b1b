//! The page's part about three runs or more side by side: the figures that changed, and all figures.

use maud::{Markup, html};
use measure::Group;

use super::page::scrolling;
use super::section::{Section, title};
use crate::plot::{self, Series, trend};
use crate::several::{Cell, Row, Several, facts};
use crate::{EMULATED_MARK, EMULATED_MEANING, units};

/// The highest number of lines with which a chart is readable: one for each colour.
const LINES: usize = 6;

/// The sections of the page before the sections of the single runs.
pub(super) fn sections(several: &Several) -> Vec<Section> {
    let mut sections = vec![Section::always("runs", "In short", answer(several))];
    for group in Group::ALL {
        let rows: Vec<&Row> = several.rows.iter().filter(|row| row.spec.group == group).collect();
        if !rows.is_empty() {
            let changed = rows.iter().filter(|row| row.is_changed()).count();
            let words = format!("{changed} of {} figures changed", rows.len());
            sections.push(Section::open(group.name(), title(group).into(), words, table(several, &rows)));
        }
    }
    sections
}

fn answer(several: &Several) -> Markup {
    let charts: Vec<Markup> =
        environments(several).into_iter().filter_map(|name| chart(several, name)).collect();
    html! {
        (scrolling(runs(several)))
        p { (several.in_short()) "." }
        @if several.rows.iter().any(|row| row.emulated) {
            p class="note" { (EMULATED_MARK) " " (EMULATED_MEANING) }
        }
        @if charts.is_empty() { p { "No change was shown that could be drawn." } }
        div class="plots" { @for chart in charts { (chart) } }
    }
}

/// The table of the runs, with the facts that distinguish them.
fn runs(several: &Several) -> Markup {
    html! {
        table class="environments" {
            thead { tr { th scope="col" { "run" } @for run in several.runs.iter().take(1) { @for (name, _) in facts(run) { th scope="col" { (name) } } } } }
            tbody {
                @for (place, run) in several.runs.iter().enumerate() {
                    tr {
                        th scope="row" { a href=(format!("#run{}-answer", place + 1)) { (place + 1) } }
                        @for (_, value) in facts(run) { td { (value) } }
                    }
                }
            }
        }
    }
}

fn environments<'a>(several: &'a Several) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &several.rows {
        if !names.contains(&row.environment) {
            names.push(row.environment);
        }
    }
    names
}

/// A chart of the figures of one environment that changed most over the runs.
fn chart(several: &Several, environment: &str) -> Option<Markup> {
    let mut rows: Vec<&Row> =
        several.rows.iter().filter(|row| row.environment == environment && row.is_changed()).collect();
    rows.sort_by(|one, other| other.span().total_cmp(&one.span()));
    rows.truncate(LINES);
    let emulated = rows.first()?.emulated;
    let lines: Vec<trend::Line> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| trend::Line {
            series: Series { name: units::text(&row.spec.title), place, emulated: row.emulated },
            costs: costs(row),
        })
        .collect();
    let is_base = rows.iter().all(|row| row.cells.iter().flatten().all(|cell| cell.is_base));
    let beside = if is_base { "beside run 1" } else { "beside the base of each run" };
    let name = format!("{}{}", units::text(environment), if emulated { EMULATED_MARK } else { "" });
    let plot = trend::draw(&format!("What changed most in {name}, {beside}, over the runs"), &lines)?;
    let series: Vec<Series> = lines.into_iter().map(|line| line.series).collect();
    Some(html! {
        figure {
            figcaption { (name) " " small { (beside) "; above ×1 is worse; what changed most" } }
            (plot) (plot::legend(&series))
        }
    })
}

fn costs(row: &Row) -> Vec<Option<f64>> {
    row.cells.iter().map(|cell| cell.as_ref().and_then(Cell::cost)).collect()
}

fn table(several: &Several, rows: &[&Row]) -> Markup {
    scrolling(html! {
        table class="runs" {
            thead { tr {
                @for head in ["what", "where", "trend"] { th scope="col" { (head) } }
                @for number in 1..=several.runs.len() { th scope="col" { "run " (number) } }
            } }
            tbody {
                @for row in rows {
                    tr data-find=(super::tables::search_words(row.spec)) class=[row.is_changed().then_some("changed")] {
                        th scope="row" title=(units::text(row.spec.id.as_str())) { (units::text(&row.spec.title)) }
                        td { (units::text(row.environment)) @if row.emulated { (EMULATED_MARK) } }
                        td { @if let Some(spark) = spark(row) { (spark) } }
                        @for cell in &row.cells { (figure(row, cell.as_ref())) }
                    }
                }
            }
        }
    })
}

fn spark(row: &Row) -> Option<Markup> {
    let place = usize::from(row.cells.iter().flatten().any(|cell| !cell.is_base));
    let series = Series { name: String::new(), place, emulated: row.emulated };
    trend::spark(&format!("{} in {}", row.spec.title, row.environment), &series, &costs(row))
}

fn figure(row: &Row, cell: Option<&Cell>) -> Markup {
    let mark = if row.emulated { EMULATED_MARK } else { "" };
    match cell {
        None => html! { td class="absent" { "–" } },
        Some(Cell { is_base: false, comparison: Some(comparison), .. }) => super::tables::finding(comparison),
        Some(Cell { median, comparison, .. }) => html! {
            td class="figure" {
                (units::value(*median, &row.spec.unit)) (mark)
                @if let Some(comparison) = comparison.as_ref().filter(|comparison| comparison.differs()) {
                    " " span class=(if comparison.slowdown > 1.0 { "slower" } else { "faster" }) { (units::factor(comparison.slowdown)) }
                }
            }
        },
    }
}
