//! One self-contained page: plots, every figure, what is missing, how to repeat it.
//!
//! Nothing on it is fetched: no script, no font, no picture, and the page's own policy forbids any. Every text
//! passes through the markup macro, which escapes it.

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
pub mod sequence;
mod tables;
pub mod ticks;

use maud::{Markup, html};
use measure::compare::analyse;
use measure::{Group, Results};

use crate::diff::Diff;
use crate::gate::GateOutcome;
use crate::view::View;
use page::page;

/// The page of one run, or of two runs compared (before, after). More than two are compared in pairs, each
/// with the first.
pub fn render(runs: &[Results]) -> String {
    render_with_gate(runs, &[])
}

/// [`render`], with what a gate found in the last run.
pub fn render_with_gate(runs: &[Results], outcomes: &[GateOutcome]) -> String {
    let title = if runs.len() > 1 { "Two runs side by side" } else { "What virtualization costs here" };
    page(
        title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (title) } }
            main {
                @if runs.is_empty() { p { "No run was given: there is nothing to show." } }
                (gates::section(outcomes))
                @if let Some((before, others)) = runs.split_first() {
                    @for after in others { (runs::section(&Diff::new(before, after))) }
                }
                @for (place, results) in runs.iter().enumerate() {
                    @if runs.len() > 1 {
                        h1 class="run" { "Run " (place + 1) " of " (runs.len()) ", " (crate::units::text(&crate::view::started(results))) }
                    }
                    (run(results))
                }
            }
            footer { p { "Drawn by Tautline " (env!("CARGO_PKG_VERSION")) " from the raw samples in the results file." } }
        },
    )
}

fn run(results: &Results) -> Markup {
    let analysis = analyse(results);
    let view = View::new(results, &analysis);
    html! {
        (overview::section(&view))
        (plots::ratios(&view))
        (plots::curves(&view))
        (plots::distributions(&view))
        (network::section(&view))
        section {
            h2 { "All figures" }
            @if analysis.summaries.is_empty() { p class="warning" { "Nothing was measured: there is no figure to show." } }
            @else { p { (tables::EXPLANATION) } }
            @for group in Group::ALL { (tables::group(&view, group)) }
        }
        (gaps::section(&view))
        (published::section(&view))
        (facts::section(&view))
    }
}
