//! Where and how the run was made.

use maud::{Markup, html};

use crate::view::{View, environment_name, plan};
use crate::{EMULATED_MARK, EMULATED_MEANING, units};

pub(super) fn section(view: &View) -> Markup {
    let results = view.results;
    let host = &results.host;
    let known = |fact: &str| if fact.is_empty() { "unknown".to_owned() } else { units::text(fact) };
    html! {
        div class="overview" {
            p {
                strong { (known(&host.cpu_model)) } ", " (host.cpus_online) " CPUs, "
                (units::size(host.memory_bytes as f64)) ", kernel " (known(host.kernel.split(' ').next().unwrap_or_default()))
                @if !host.hypervisor.is_empty() { ", itself a guest of " (units::text(&host.hypervisor)) }
                ", " span class="whole" { (known(&crate::view::started(results))) }
            }
            p {
                @if results.plan.quick { span class="badge" { "quick" } }
                @if !results.complete { span class="badge" { "interrupted" } }
                (plan(results))
            }
            @if !results.complete {
                p class="warning" {
                    strong { "Interrupted" } " after " (units::watched((results.elapsed_s.max(0.0) * 1e9) as u64))
                    ": what follows was gathered before; intervals are wider or missing."
                }
            }
            @if view.any_emulated() {
                p class="warning" { strong { (EMULATED_MARK) " " (EMULATED_MEANING) "." } " Its figures are dashed, hollow and marked wherever they appear." }
            }
            @if results.environments.is_empty() { p class="warning" { "No environment was measured." } }
        }
    }
}

/// Where the run was made: each environment with its facts.
pub(super) fn environments(view: &View) -> Markup {
    html! {
        (super::page::scrolling(html! { table class="environments" {
            thead { tr { th scope="col" { "environment" } th scope="col" { "runs on" } th scope="col" { "facts" } } }
            tbody {
                @for (place, environment) in view.results.environments.iter().enumerate() {
                    tr {
                        th scope="row" { (environment_name(environment)) }
                        td { (units::text(&environment.accelerator)) @if environment.emulated { " (emulated)" } }
                        td {
                            @if place == 0 { "the base of all ratios" @if !environment.facts.is_empty() { "; " } }
                            @for (number, (key, value)) in environment.facts.iter().enumerate() {
                                @if number > 0 { ", " }
                                (units::text(key)) " " (units::text(value))
                            }
                            @if let Some(failure) = &environment.failure {
                                strong class="slower" { " failed: " } (units::text(&failure.to_string()))
                            }
                        }
                    }
                }
            }
        } }))
    }
}
