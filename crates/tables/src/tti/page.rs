//! The page of a run.

use std::time::Duration;

use lab::tti::{Outcome, Results, Row, load_name};
use report::html::budget::Bar;
use report::html::ticks::{Load, Stages, Ticks};

use super::mark::marked;
use super::stage_table;
use super::table::noise;
use linux::duration;

/// Renders one self-contained page.
pub fn page(results: &Results) -> String {
    report::html::ticks::render(&drawn(results))
}

fn drawn(results: &Results) -> Ticks {
    let show = |ns: u64| duration::show(Duration::from_nanos(ns)).to_string();
    let found: Vec<(&Row, &Outcome)> =
        results.rows.iter().filter_map(|row| Some((row, row.found().ok()?))).collect();
    let named = |row: &Row| format!("{}, load {}", marked(row), load_name(row.load));
    let us = |ns: u64| ns as f64 / 1e3;
    let mut bars = Vec::new();
    for (row, outcome) in &found {
        let latency = &outcome.received.from_due;
        for (statistic, ns) in [("p99.9", latency.quantile_ns(0.999)), ("max", latency.max_ns())] {
            let name = format!("{}, {statistic}", named(row));
            bars.push(Bar { name, found_us: Some(us(ns)), limit_us: Some(us(results.budget_ns)) });
        }
    }
    let stages = found.iter().filter(|(_, outcome)| !outcome.stages.stages.is_empty());
    let stages = stages.map(|(row, outcome)| Stages {
        heading: format!("{}: {}", named(row), stage_table::found(outcome)),
        rows: (outcome.stages.stages.iter())
            .map(|times| {
                let found = [times.p50_ns, times.p999_ns, times.max_ns].map(us);
                (times.stage.name().to_owned(), found, times.stage.published_us())
            })
            .collect(),
        worst: stage_table::worst(outcome).into_iter().collect(),
    });
    let failed =
        results.rows.iter().filter_map(|row| Some(format!("{}: {}", named(row), row.found().err()?)));
    let mut facts = vec![
        format!(
            "A tick every {}, from CPU {} to CPU {}.",
            show(results.interval_ns),
            results.cpus[0],
            results.cpus[1]
        ),
        format!("The budget from due to running in user space is {}.", show(results.budget_ns)),
    ];
    if found.iter().any(|(_, outcome)| outcome.is_emulated) {
        facts.push(format!("{} {}", report::EMULATED_MARK, report::EMULATED_MEANING));
    }
    Ticks {
        title: "From a tick to user space".into(),
        facts,
        loads: loads(&found),
        bars,
        stages: stages.collect(),
        notes: failed.chain(noise(results)).collect(),
    }
}

/// The rows by their load; each environment keeps its colour.
fn loads(found: &[(&Row, &Outcome)]) -> Vec<Load> {
    let mut environments: Vec<&str> = Vec::new();
    let mut loads: Vec<Load> = Vec::new();
    for (row, outcome) in found {
        if !environments.contains(&row.environment.as_str()) {
            environments.push(&row.environment);
        }
        let place = environments.iter().position(|name| *name == row.environment).unwrap_or(0);
        let name = load_name(row.load);
        if loads.last().is_none_or(|load| load.name != name) && !loads.iter().any(|load| load.name == name) {
            loads.push(Load { name: name.into(), environments: Vec::new() });
        }
        if let Some(load) = loads.iter_mut().find(|load| load.name == name) {
            let latency = outcome.received.from_due.clone();
            load.environments.push((row.environment.clone(), place, outcome.is_emulated, latency));
        }
    }
    loads
}
