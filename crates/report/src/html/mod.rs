//! One self-contained page: plots, every figure, what is missing, how to repeat it.
//!
//! The page fetches nothing: no font, no picture, and no script. Its only script is inline and finds a metric by
//! typing. The page's Content-Security-Policy forbids any other script. Every text passes through the markup
//! macro, which escapes it.

mod answer;
pub mod budget;
pub mod exits;
mod facts;
pub mod figures;
mod gaps;
mod gates;
mod network;
mod overview;
mod page;
mod plots;
mod published;
mod runs;
mod section;
pub mod sequence;
mod several;
mod tables;
pub mod ticks;

use maud::{Markup, html};
use measure::compare::{Comparison, Finding, analyse};
use measure::{Group, Results};

use crate::diff::Diff;
use crate::gate::GateOutcome;
use crate::several::Several;
use crate::view::View;
use page::page_with_finder;
use section::Section;

/// The page of one run, of two runs compared (before, after), or of several with what changed over them.
pub fn render(runs: &[Results]) -> String {
    render_with_gate(runs, &[])
}

/// [`render`], with the outcomes of a gate for the last run.
pub fn render_with_gate(runs: &[Results], outcomes: &[GateOutcome]) -> String {
    let title = match runs {
        [] | [_] => "What virtualization costs here".to_owned(),
        [_, _] => "Two runs side by side".to_owned(),
        _ => format!("{} runs side by side", runs.len()),
    };
    let over_all = if runs.len() > 2 { several::sections(&Several::new(runs)) } else { Vec::new() };
    let mut parts = vec![("all".to_owned(), String::new(), over_all)];
    let of_runs = runs.iter().enumerate().map(|(place, results)| {
        let started = crate::units::text(&crate::view::started(results));
        let heading = format!("Run {} of {}, {started}", place + 1, runs.len());
        (
            format!("run{}", place + 1),
            if runs.len() > 1 { heading } else { String::new() },
            sections(results, place + 1),
        )
    });
    parts.extend(of_runs);
    page_with_finder(
        &title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (title) } }
            div class="sided" {
                (section::contents(&parts))
                main {
                    @if runs.is_empty() { p { "No run was given: there is nothing to show." } }
                    (gates::section(outcomes))
                    @if let [before, after] = runs { (runs::section(&Diff::new(before, after))) }
                    @for section in &parts[0].2 { (section.draw(&parts[0].0)) }
                    @for ((run, heading, sections), results) in parts[1..].iter().zip(runs) {
                        @if !heading.is_empty() { h1 class="run" { (heading) } }
                        (overview::section(&View::new(results, &analyse(results))))
                        @for section in sections { (section.draw(run)) }
                    }
                }
            }
            footer { p { "Drawn by Tautline " (env!("CARGO_PKG_VERSION")) " from the raw samples in the results file." } }
        },
    )
}

/// The run's answer, then a part for each group, then what a reader needs to judge or repeat it.
fn sections(results: &Results, number: usize) -> Vec<Section> {
    let analysis = analyse(results);
    let view = View::new(results, &analysis);
    let mut sections = vec![answer::section(&view, &format!("run{number}"))];
    sections.push(Section::closed("read", "How to read it", plots::how_to_read(&view)));
    for group in Group::ALL {
        let is_net = group == Group::Net && !results.network.is_empty();
        if is_net || results.metrics.iter().any(|spec| spec.group == group) {
            let id = group.name();
            sections.push(Section::open(
                id,
                section::title(group).into(),
                words(&view, group),
                content(&view, group),
            ));
        }
    }
    sections.push(Section::closed("gaps", "Noise and gaps", gaps::section(&view)));
    sections.push(Section::closed("environments", "Environments", overview::environments(&view)));
    sections.extend(
        published::section(&view).map(|content| Section::closed("published", "Published elsewhere", content)),
    );
    sections.push(Section::closed("facts", "The machine, and how to repeat it", facts::section(&view)));
    sections
}

/// In how many comparisons of the group a difference was shown.
fn words(view: &View, group: Group) -> String {
    let is_of = |c: &&Comparison| view.results.metric(&c.metric).is_some_and(|spec| spec.group == group);
    let found: Vec<&Comparison> = view.analysis.comparisons.iter().filter(is_of).collect();
    let count = |finding: Finding| found.iter().filter(|c| c.finding == finding).count();
    match (found.len(), count(Finding::Slower), count(Finding::Faster)) {
        (0, _, _) => String::new(),
        (all, 0, 0) => format!("no difference shown in {all} comparisons"),
        (all, slower, faster) => format!("{slower} of {all} comparisons slower, {faster} faster"),
    }
}

fn content(view: &View, group: Group) -> Markup {
    html! {
        (plots::ratios(view, group))
        (plots::curves(view, group))
        (plots::distributions(view, group))
        @if group == Group::Net { (network::section(view)) }
        (tables::group(view, group))
    }
}
