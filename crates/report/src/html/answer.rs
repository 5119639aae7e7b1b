//! The top of the page: what each environment costs, in a sentence and a chart, and how certain that is.

use maud::{Markup, html};
use measure::compare::{Comparison, Finding};
use measure::{EnvironmentRecord, Group};

use super::plots::series;
use super::section::Section;
use crate::plot::dots;
use crate::screen::verdict;
use crate::units;
use crate::view::{View, environment_name, finding};

/// The characters of a sentence.
const SENTENCE: usize = 240;
/// The gaps that are named at the top.
const GAPS: usize = 5;

pub(super) fn section(view: &View, id: &str) -> Section {
    let base = view.results.environments.first().map(|base| units::text(&base.name)).unwrap_or_default();
    let others = view.results.environments.iter().skip(1);
    let found: Vec<(&EnvironmentRecord, Vec<&Comparison>)> = others
        .map(|record| {
            let of_it = view.analysis.comparisons.iter().filter(|c| c.environment == record.name);
            (record, of_it.collect::<Vec<_>>())
        })
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let sure = crate::in_short::lines(view);
    let gaps = crate::gaps::by_remedy(view);
    let content = html! {
        @if view.analysis.summaries.is_empty() { p class="warning" { "Nothing was measured: there is no figure to show." } }
        @else if found.is_empty() { p { "No environment was compared with another." } }
        div class="answers" {
            @for (record, found) in &found {
                div class="answer" {
                    h3 { (environment_name(record)) " beside " (base) }
                    p { (verdict(view, found, SENTENCE)) "." }
                    @if record.emulated { p class="note" { (crate::EMULATED_MARK) " " (crate::EMULATED_MEANING) } }
                    @if let Some(chart) = chart(view, record, found) { (chart) }
                }
            }
        }
        @if !found.is_empty() {
            p class="note" { "A dot is a metric: right of the line it costs more than on " (base) ". Pale: no difference was shown. The scale is logarithmic, and the same in all charts." }
        }
        @if !gaps.is_empty() {
            p { "Not measured, and what would add it (" a href=(format!("#{id}-gaps")) { "all reasons" } "):" }
            ul class="plain" { @for gap in gaps.iter().take(GAPS) { li { (gap.line(usize::MAX)) } } }
            @if gaps.len() > GAPS { p { "And " (gaps.len() - GAPS) " more." } }
        }
        @if !sure.is_empty() {
            details { summary { "How sure is that?" } ul class="plain" { @for line in &sure { li { (line) } } } }
        }
    };
    Section::always("answer", "In short", content)
}

fn chart(view: &View, record: &EnvironmentRecord, found: &[&Comparison]) -> Option<Markup> {
    let series = series(view).into_iter().find(|series| series.name == environment_name(record))?;
    let group_of = |c: &Comparison| view.results.metric(&c.metric).map(|spec| spec.group);
    let rows: Vec<dots::Row> = Group::ALL
        .into_iter()
        .map(|group| {
            let of_it = found.iter().filter(|c| group_of(c) == Some(group));
            let dot = |c: &&Comparison| dots::Dot {
                ratio: c.slowdown,
                is_shown: matches!(c.finding, Finding::Slower | Finding::Faster),
                words: view
                    .results
                    .metric(&c.metric)
                    .map(|spec| format!("{}: {}", units::text(&spec.title), finding(c)))
                    .unwrap_or_default(),
            };
            dots::Row { name: group.name(), dots: of_it.map(dot).collect() }
        })
        .filter(|row| !row.dots.is_empty())
        .collect();
    let range: Vec<f64> = view.analysis.comparisons.iter().map(|c| c.slowdown).collect();
    dots::draw(&format!("Slowdowns of {} by group", environment_name(record)), &series, &rows, &range)
}
