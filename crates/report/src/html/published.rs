//! Published figures for the same kinds of kernels. They are shown beside ours and never combined with them.

use maud::{Markup, html};
use measure::EnvironmentKind;

use crate::published::{LMBENCH, PLATFORM};
use crate::units;
use crate::view::{View, environment_name};

/// The section; `None` if no published figure matches a metric of the run.
pub(super) fn section(view: &View) -> Option<Markup> {
    let vms: Vec<_> = view.environments.iter().filter(|e| e.kind == EnvironmentKind::Vm).collect();
    let specs = &view.results.metrics;
    let rows: Vec<_> = LMBENCH
        .iter()
        .flat_map(|published| published.matching(specs).into_iter().map(move |spec| (published, spec)))
        .filter(|(_, spec)| vms.iter().any(|vm| view.analysis.comparison(&spec.id, &vm.name).is_some()))
        .collect();
    if rows.is_empty() {
        return None;
    }
    Some(html! {
            div {
                p { "Degradations that others published for the same kinds of work under KVM on " (PLATFORM)
                    ". Another processor, another decade, other code: an order of size to hold ours against, nothing more." }
                (super::page::scrolling(html! {
                    table {
                        thead { tr {
                            th scope="col" { "what" }
                            th scope="col" { "published, " (PLATFORM) }
                            @for vm in &vms { th scope="col" { "here, " (environment_name(vm)) } }
                        } }
                        tbody {
                            @for (published, spec) in &rows {
                                tr {
                                    th scope="row" { (units::text(&spec.title)) br; span class="note" { "published as: " (published.what) } }
                                    td class="figure" { (percent(published.degradation_percent)) }
                                    @for vm in &vms {
                                        @match view.analysis.comparison(&spec.id, &vm.name) {
                                            Some(comparison) => (super::tables::finding(comparison)),
                                            None => { td class="absent" { "not measured" } },
                                        }
                                    }
                                }
                            }
                        }
                    }
                }))
            }
    })
}

/// A degradation in per cent as the factor that this page speaks in, and as published.
fn percent(degradation: f64) -> String {
    format!("{} ({degradation} %)", units::factor(1.0 + degradation / 100.0))
}
