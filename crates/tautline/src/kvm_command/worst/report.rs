//! What was found, as a file, as text and as a page.

use std::fmt::Write;

use kvm::worst::{Blame, Checked, Fit, Kept, Latency, Path, Watched, longer};
use report::html::budget::{Bar, Bars};
use serde::{Deserialize, Serialize};

use super::follow::Found;
use crate::exit::Done;
use crate::kvm_command::record::Heading;
use crate::output::Sink;

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-worst/1";

const EMULATED: &str =
    "Emulated CPU: causes are real; times show that each path works, never how fast it is.";

/// What is written.
#[derive(Serialize, Deserialize)]
pub struct Report {
    #[serde(flatten)]
    heading: Heading,
    watched: Watched,
    /// For how long.
    #[serde(default)]
    seconds: f64,
    /// How many were seen.
    count: u64,
    /// ns.
    p50_ns: u64,
    p999_ns: u64,
    max_ns: u64,
    /// Events that the kernel's buffers had no room for.
    lost: u64,
    worst: Option<Latency>,
    /// How well the guest's clock fits the host's, where the guest was recorded too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fit: Option<Fit>,
    /// Who had the time of the worst, and of the median.
    worst_parts: Vec<Blame>,
    median_parts: Vec<Blame>,
    /// The same in the order of time; of many stretches the longest.
    #[serde(default)]
    worst_path: Vec<Blame>,
    #[serde(default)]
    median_path: Vec<Blame>,
    /// What was longer in the worst, the largest first.
    longer: Vec<Blame>,
    /// All limits of the budget beside what was found, and those that do not hold.
    #[serde(default)]
    limits: Vec<Checked>,
    missed: Vec<Checked>,
}

impl Report {
    pub fn new(heading: Heading, watched: Watched, found: &Found, limits: Vec<Checked>) -> Self {
        let kept: &Kept = found.of(watched);
        let all = kept.histogram();
        let parts = |path: Option<&Path>| path.map_or_else(Vec::new, |path| path.parts.clone());
        let stretches = |path: Option<&Path>| path.map_or_else(Vec::new, |path| path.stretches.clone());
        let (worst_parts, median_parts) = (parts(kept.worst_path()), parts(kept.median_path()));
        Report {
            heading,
            watched,
            seconds: found.elapsed.as_secs_f64(),
            count: all.count(),
            p50_ns: all.median_ns(),
            p999_ns: all.quantile_ns(0.999),
            max_ns: all.max_ns(),
            lost: found.lost,
            worst: kept.worst(),
            fit: found.fit,
            longer: longer(&worst_parts, &median_parts),
            worst_parts,
            median_parts,
            worst_path: stretches(kept.worst_path()),
            median_path: stretches(kept.median_path()),
            missed: limits.iter().filter(|limit| !limit.holds()).cloned().collect(),
            limits,
        }
    }

    /// Whether all limits do.
    pub fn holds(&self) -> bool {
        self.missed.is_empty()
    }

    /// What there is to say of the longest.
    fn first_cause(&self) -> Option<String> {
        match self.longer.first() {
            Some(first) => Some(format!("First cause: {}", first.cause.text())),
            None if self.count > 0 => {
                Some("The worst has no path: newer events took its place before they were read".into())
            }
            None => None,
        }
    }

    /// How far off the guest's clock may be, where there is a guest's.
    fn alignment(&self) -> Option<String> {
        let fit = self.fit?;
        Some(format!(
            "Guest's clock: KVM's offset of its counter, off by at most {:.1} µs: {} of its events are at most \
             that far within the entry and the exit around them",
            micros(fit.error_ns()),
            fit.events
        ))
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "Process {}, {}: {} latencies of {} in {:.1} s; median {:.1} µs, p99.9 {:.1} µs, worst {:.1} µs; {} events lost",
            self.heading.pid,
            self.heading.accelerator,
            self.count,
            self.watched.name(),
            self.seconds,
            micros(self.p50_ns),
            micros(self.p999_ns),
            micros(self.max_ns),
            self.lost,
        );
        if self.heading.emulated {
            let _ = writeln!(text, "{EMULATED}");
        }
        if let Some(alignment) = self.alignment() {
            let _ = writeln!(text, "{alignment}");
        }
        if let Some(first) = self.first_cause() {
            let _ = writeln!(text, "{first}");
        }
        for (title, parts) in [
            ("Longer than in the median", &self.longer),
            ("The worst, in the order of time", &self.worst_path),
            ("The median, in the order of time", &self.median_path),
        ] {
            let _ = writeln!(text, "\n{title}:");
            for part in parts {
                let _ = writeln!(text, "  {:>10.1} µs  {}", micros(part.ns), part.cause.text());
            }
        }
        for missed in &self.missed {
            let found = missed.found_us.map_or("nothing measured".into(), |found| format!("{found:.1} µs"));
            let _ =
                writeln!(text, "missed: {} at most {} µs, found {found}", missed.statistic, missed.limit_us);
        }
        text
    }

    /// The budget's limits, or what was measured where there is none; then who had the time.
    fn bars(&self) -> Bars {
        let watched = self.watched.name();
        let measured = [("p50", self.p50_ns), ("p99.9", self.p999_ns), ("max", self.max_ns)];
        let mut bars: Vec<Bar> = measured
            .iter()
            .map(|(statistic, ns)| Bar {
                name: format!("{watched}, {statistic}"),
                found_us: (self.count > 0).then_some(micros(*ns)),
                limit_us: None,
            })
            .collect();
        for limit in &self.limits {
            let own = format!("{}, {}", limit.stage.name(), limit.statistic);
            match bars.iter_mut().find(|bar| bar.name == own) {
                Some(bar) => bar.limit_us = Some(limit.limit_us),
                None => {
                    bars.push(Bar { name: own, found_us: limit.found_us, limit_us: Some(limit.limit_us) })
                }
            }
        }
        let whole = format!(
            "{}: {} latencies of {watched}; {} events lost",
            self.heading.accelerator, self.count, self.lost
        );
        let mut facts: Vec<String> =
            [Some(whole), self.first_cause(), self.alignment()].into_iter().flatten().collect();
        if self.heading.emulated {
            facts.push(EMULATED.into());
        }
        let parts = |parts: &[Blame]| parts.iter().map(|part| (part.cause.text(), micros(part.ns))).collect();
        Bars {
            title: format!("The worst case of process {}", self.heading.pid),
            facts,
            bars,
            parts: vec![
                ("Longer than in the median", parts(&self.longer)),
                ("The worst", parts(&self.worst_parts)),
                ("The median", parts(&self.median_parts)),
                ("The worst, in the order of time", parts(&self.worst_path)),
                ("The median, in the order of time", parts(&self.median_path)),
            ],
        }
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Draws a file again, as text and as a page.
pub fn show(file: &std::path::Path, sink: &Sink, html: Option<&std::path::Path>) -> anyhow::Result<Done> {
    let page = |report: &Report| report::html::budget::render(&report.bars());
    crate::show::redraw(file, "kvm worst", sink, html, |report: &Report, _| report.text(), page)
}
