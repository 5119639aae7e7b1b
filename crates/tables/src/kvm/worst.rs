//! `tautline kvm worst`: explains what took the time of the longest latency.

use std::fmt::Write;

use kvm::worst::Blame;
use lab::traced::worst::Report;
use report::html::budget::{Bar, Bars};

const EMULATED: &str =
    "Emulated CPU: causes are real; times show that each path works, never how fast it is.";

/// Renders one self-contained page.
pub fn page(report: &Report) -> String {
    report::html::budget::render(&bars(report))
}

/// The text about the longest latency.
fn first_cause(report: &Report) -> Option<String> {
    match report.longer.first() {
        Some(first) => Some(format!("First cause: {}", first.cause.text())),
        None if report.count > 0 => {
            Some("The worst has no path: newer events took its place before they were read".into())
        }
        None => None,
    }
}

/// How far off the guest's clock may be, where there is a guest's.
fn alignment(report: &Report) -> Option<String> {
    let fit = report.fit?;
    Some(format!(
        "Guest's clock: KVM's offset of its counter, off by at most {:.1} µs: {} of its events are at most \
         that far within the entry and the exit around them",
        micros(fit.error_ns()),
        fit.events
    ))
}

/// The causes of the longest latency, beside those of the median.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "Process {}, {}: {} latencies of {} in {:.1} s; median {:.1} µs, p99.9 {:.1} µs, worst {:.1} µs; {} events lost",
        report.heading.pid,
        report.heading.accelerator,
        report.count,
        report.watched.name(),
        report.seconds,
        micros(report.p50_ns),
        micros(report.p999_ns),
        micros(report.max_ns),
        report.lost,
    );
    if report.heading.emulated {
        let _ = writeln!(text, "{EMULATED}");
    }
    if let Some(alignment) = alignment(report) {
        let _ = writeln!(text, "{alignment}");
    }
    if let Some(first) = first_cause(report) {
        let _ = writeln!(text, "{first}");
    }
    for (title, parts) in [
        ("Longer than in the median", &report.longer),
        ("The worst, in the order of time", &report.worst_path),
        ("The median, in the order of time", &report.median_path),
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

/// The budget's limits, or the measured values if there is no budget; then the causes.
fn bars(report: &Report) -> Bars {
    let watched = report.watched.name();
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
        let own = format!("{}, {}", limit.stage.name(), limit.statistic);
        match bars.iter_mut().find(|bar| bar.name == own) {
            Some(bar) => bar.limit_us = Some(limit.limit_us),
            None => bars.push(Bar { name: own, found_us: limit.found_us, limit_us: Some(limit.limit_us) }),
        }
    }
    let whole = format!(
        "{}: {} latencies of {watched}; {} events lost",
        report.heading.accelerator, report.count, report.lost
    );
    let mut facts: Vec<String> =
        [Some(whole), first_cause(report), alignment(report)].into_iter().flatten().collect();
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
            ("The worst, in the order of time", parts(&report.worst_path)),
            ("The median, in the order of time", parts(&report.median_path)),
        ],
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}
