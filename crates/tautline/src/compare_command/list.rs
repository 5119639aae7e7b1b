//! `compare --list`: prints what would be measured, and in which environments.

use std::fmt::Write;

use report::units;
use serde::Serialize;

use crate::output::Sink;
use lab::compare::RunPlan;

/// The list as JSON.
#[derive(Serialize)]
struct List<'a> {
    schema: &'static str,
    environments: Vec<&'a str>,
    metrics: Vec<Metric<'a>>,
}

#[derive(Serialize)]
struct Metric<'a> {
    id: &'a str,
    group: &'a str,
    title: &'a str,
    unit: String,
}

/// Prints the list.
pub fn put(plan: &RunPlan, sink: &Sink) -> anyhow::Result<()> {
    let specs = plan.specs();
    let metrics = specs.iter().map(|spec| Metric {
        id: spec.id.as_str(),
        group: spec.group.name(),
        title: &spec.title,
        unit: units::name(&spec.unit),
    });
    let list = List {
        schema: "tautline-compare-list/1",
        environments: plan.environments.iter().map(|place| place.text.as_str()).collect(),
        metrics: metrics.collect(),
    };
    sink.put(|_, _| text(&list), || Ok(serde_json::to_string_pretty(&list)?))
}

fn text(list: &List<'_>) -> String {
    let mut text = format!("environments: {}\n", list.environments.join(", "));
    let width = list.metrics.iter().map(|metric| metric.id.len()).max().unwrap_or(0);
    let mut group = "";
    for metric in &list.metrics {
        if metric.group != group {
            group = metric.group;
            let _ = writeln!(text, "\n{group}");
        }
        let _ = writeln!(text, "  {:width$}  {} ({})", metric.id, metric.title, metric.unit);
    }
    text
}
