//! Discarded trials and missing figures, with the reasons.

use maud::{Markup, html};

use crate::units;
use crate::view::View;

pub(super) fn section(view: &View) -> Markup {
    let absences = view.absences();
    let remarks = view.remarks();
    let paths = crate::network::missing(view.results);
    let failed: Vec<_> =
        view.results.environments.iter().filter_map(|e| Some((&e.name, e.failure.as_ref()?))).collect();
    html! {
        div {
            ul class="plain" {
                li {
                    (view.analysis.discarded) " of " (view.results.trials.len()) " trials discarded as noisy and repeated; "
                    (view.analysis.noisy) " kept although noisy; of these, " (view.analysis.disturbed_discarded) " and "
                    (view.analysis.disturbed_noisy) " on a core whose SMT sibling was at work"
                }
                @for ((environment, remark), metrics) in remarks {
                    li { strong { (units::text(environment)) } ": " (units::text(remark)) " (" (metrics) " metrics)" }
                }
                @for (name, failure) in &failed {
                    li { strong { (units::text(name)) } " failed: " (units::text(&failure.to_string())) }
                }
                @for (environment, reason, metrics) in &absences {
                    li {
                        strong { (units::text(environment)) } " lacks " (metrics.len()) " metrics: " (units::text(&reason.to_string()))
                        details { summary { "which" } @for metric in metrics { code { (units::text(metric)) } " " } }
                    }
                }
                @for (what, failure) in &paths { li { (what) ": " (units::text(&failure.to_string())) } }
                @if paths.is_empty() && failed.is_empty() && absences.is_empty() { li { "Nothing that was asked for is missing." } }
            }
            (noisy(view))
        }
    }
}

/// Every trial that was over a limit, with the reason.
fn noisy(view: &View) -> Markup {
    use measure::Verdict::{Accepted, Discarded, KeptNoisy};
    let marked: Vec<_> = view
        .results
        .trials
        .iter()
        .filter_map(|trial| match &trial.verdict {
            Accepted => None,
            Discarded(reason) => Some((trial, "discarded", reason)),
            KeptNoisy(reason) => Some((trial, "kept, marked !", reason)),
        })
        .collect();
    html! {
        @if !marked.is_empty() {
            details {
                summary { "Trials over a noise limit" }
                (super::page::scrolling(html! {
                    table {
                        thead { tr { @for head in ["metric", "where", "start", "round", "try", "verdict", "why"] { th scope="col" { (head) } } } }
                        tbody {
                            @for (trial, verdict, reason) in marked {
                                tr {
                                    td { (units::text(trial.metric.as_str())) } td { (units::text(&trial.environment)) }
                                    td { (trial.block) } td { (trial.round) } td { (trial.attempt) }
                                    td { (verdict) } td { (units::text(reason)) }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }
}
