//! `tautline kvm worst`.

use std::fmt::Write;

use anyhow::Context;
use kvm::events::Target;
use kvm::worst::{self, Blame, Budget, Checked, Latency, Watched};
use report::html::budget::{Bar, Bars};
use serde::{Deserialize, Serialize};

use super::record::{Heading, record};
use crate::cli::{KvmWorst, WatchedLatency};
use crate::exit::{Done, Usage};
use crate::output::{self, Sink};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-worst/1";

const EMULATED: &str =
    "Emulated CPU: causes are real; times show that each path works, never how fast it is.";

/// What is written.
#[derive(Serialize, Deserialize)]
struct Report {
    #[serde(flatten)]
    heading: Heading,
    watched: Watched,
    /// How many were seen.
    count: usize,
    /// ns.
    p50_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// Events that the kernel's buffers had no room for.
    lost: u64,
    worst: Option<Latency>,
    /// Who had the time of the worst, and of the median.
    worst_parts: Vec<Blame>,
    median_parts: Vec<Blame>,
    /// What was longer in the worst, the largest first.
    longer: Vec<Blame>,
    /// All limits of the budget beside what was found, and those that do not hold.
    #[serde(default)]
    limits: Vec<Checked>,
    missed: Vec<Checked>,
}

/// Runs the command.
pub fn run(arguments: &KvmWorst) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let budget = arguments.budget.as_deref().map(read).transpose()?;
    output::catch_interrupts()?;
    let heading = Heading::now(SCHEMA, arguments.pid)?;
    let target = Target::find(arguments.pid)?;
    let trace = record(arguments.pid, arguments.time)?;
    let watched = match arguments.watch {
        WatchedLatency::WakeUp => Watched::WakeUp,
        WatchedLatency::Interrupt => Watched::Interrupt,
    };
    let all = worst::latencies(&trace, &target, watched);
    let times: Vec<u64> = all.iter().map(Latency::ns).collect();
    let at = |share: f64| {
        let place = (all.len() as f64 * share).ceil() as usize;
        times.get(place.saturating_sub(1)).copied().unwrap_or(0)
    };
    let parts =
        |latency: Option<&Latency>| latency.map(|latency| worst::blame(&trace, latency)).unwrap_or_default();
    let (worst_parts, median_parts) = (parts(all.last()), parts(all.get(all.len() / 2)));
    let limits: Vec<Checked> = budget.map_or_else(Vec::new, |budget| {
        // One trace has the latencies of all stages.
        let stages = [Watched::WakeUp, Watched::Interrupt].into_iter().flat_map(|stage| {
            let found = worst::latencies(&trace, &target, stage);
            budget.check(stage, &found.iter().map(Latency::ns).collect::<Vec<_>>())
        });
        stages.collect()
    });
    let report = Report {
        heading,
        watched,
        count: all.len(),
        p50_ns: at(0.5),
        p999_ns: at(0.999),
        max_ns: at(1.0),
        lost: trace.lost,
        worst: all.last().copied(),
        longer: worst::longer(&worst_parts, &median_parts),
        worst_parts,
        median_parts,
        missed: limits.iter().filter(|limit| !limit.holds()).cloned().collect(),
        limits,
    };
    sink.put(|_, _| text(&report), || Ok(serde_json::to_string(&report)?))?;
    Ok(if report.missed.is_empty() { Done::Whole } else { Done::ThresholdExceeded })
}

/// Draws a file again, as text and as a page.
pub fn show(file: &std::path::Path, sink: &Sink, html: Option<&std::path::Path>) -> anyhow::Result<Done> {
    let page = |report: &Report| report::html::budget::render(&bars(report));
    crate::show::redraw(file, "kvm worst", sink, html, |report, _| text(report), page)
}

/// The budget's limits, or what was measured where there is none; then who had the time.
fn bars(report: &Report) -> Bars {
    let micros = |ns: u64| ns as f64 / 1e3;
    let name = |stage: Watched| match stage {
        Watched::WakeUp => "wake-up",
        Watched::Interrupt => "interrupt",
    };
    let watched = name(report.watched);
    let measured = [("p50", report.p50_ns), ("p99.9", report.p999_ns), ("max", report.max_ns)];
    let mut bars: Vec<Bar> = measured
        .iter()
        .map(|(statistic, ns)| Bar {
            name: format!("{watched}, {statistic}"),
            found_us: (report.count > 0).then_some(micros(*ns)),
            limit_us: None,
        })
        .collect();
    for limit in &report.limits {
        let own = format!("{}, {}", name(limit.stage), limit.statistic);
        match bars.iter_mut().find(|bar| bar.name == own) {
            Some(bar) => bar.limit_us = Some(limit.limit_us),
            None => bars.push(Bar { name: own, found_us: limit.found_us, limit_us: Some(limit.limit_us) }),
        }
    }
    let first = report.longer.first().map(|first| format!("First cause: {}", first.cause.text()));
    let whole = format!(
        "{}: {} latencies of {watched}; {} events lost",
        report.heading.accelerator, report.count, report.lost
    );
    let mut facts: Vec<String> = [Some(whole), first].into_iter().flatten().collect();
    if report.heading.emulated {
        facts.push(EMULATED.into());
    }
    let parts = |parts: &[Blame]| parts.iter().map(|part| (part.cause.text(), micros(part.ns))).collect();
    Bars {
        title: format!("The worst case of process {}", report.heading.pid),
        facts,
        bars,
        parts: vec![
            ("Longer than in the median", parts(&report.longer)),
            ("The worst", parts(&report.worst_parts)),
            ("The median", parts(&report.median_parts)),
        ],
    }
}

fn read(file: &std::path::Path) -> anyhow::Result<Budget> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading the budget {}", file.display()))?;
    toml::from_str(&text).map_err(|error| Usage(format!("{}: {error}", file.display())).into())
}

fn text(report: &Report) -> String {
    let micros = |ns: u64| ns as f64 / 1e3;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Process {}, {}: {} latencies; median {:.1} µs, p99.9 {:.1} µs, worst {:.1} µs; {} events lost",
        report.heading.pid,
        report.heading.accelerator,
        report.count,
        micros(report.p50_ns),
        micros(report.p999_ns),
        micros(report.max_ns),
        report.lost,
    );
    if report.heading.emulated {
        let _ = writeln!(text, "{EMULATED}");
    }
    if let Some(first) = report.longer.first() {
        let _ = writeln!(text, "First cause: {}", first.cause.text());
    }
    for (title, parts) in [
        ("Longer than in the median", &report.longer),
        ("The worst", &report.worst_parts),
        ("The median", &report.median_parts),
    ] {
        let _ = writeln!(text, "\n{title}:");
        for part in parts {
            let _ = writeln!(text, "  {:>10.1} µs  {}", micros(part.ns), part.cause.text());
        }
    }
    for missed in &report.missed {
        let found = missed.found_us.map_or("nothing measured".into(), |found| format!("{found:.1} µs"));
        let _ = writeln!(text, "missed: {} at most {} µs, found {found}", missed.statistic, missed.limit_us);
    }
    text
}
