//! `tautline kvm path`.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use kvm::events::Target;
use kvm::path::explain::Explanation;
use kvm::path::known::{self, Device};
use kvm::path::{Arrows, Place, Summary, Traffic, follow, sequence};
use report::html::sequence::{Arrow, Sequence};
use serde::{Deserialize, Serialize};

use super::record::{Heading, record};
use crate::cli::{Followed, KvmPath};
use crate::exit::{self, Done, Usage};
use crate::output::{self, Sink};

/// The schema of this version's files.
pub const SCHEMA: &str = "tautline-kvm-path/1";

/// What is written.
#[derive(Serialize, Deserialize)]
struct Report {
    #[serde(flatten)]
    heading: Heading,
    followed: Traffic,
    seconds: f64,
    /// Events that the kernel's buffers had no room for.
    lost: u64,
    /// Lines of the trace that are no event that is known.
    unknown: u64,
    #[serde(flatten)]
    found: Option<Summary>,
    device: Option<Device>,
    /// The steps that published work counts.
    published_steps: Option<usize>,
    /// Steps that it may not have, and why they are there.
    differences: Vec<String>,
    explanation: Option<Explanation>,
}

/// Runs the command.
pub fn run(arguments: &KvmPath) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let costs = arguments.costs.as_deref().map(read_costs).transpose()?;
    output::catch_interrupts()?;
    let heading = Heading::now(SCHEMA, arguments.pid)?;
    let target = Target::find(arguments.pid)?;
    let begin = Instant::now();
    let trace = record(arguments.pid, arguments.time)?;
    let traffic = match arguments.followed {
        Followed::NetRx => Traffic::NetRx,
        Followed::NetTx => Traffic::NetTx,
        Followed::Interrupt => Traffic::Interrupt,
        Followed::Block => Traffic::Block,
    };
    let found = Summary::of(&follow::all(&trace, &target, traffic));
    let device = Device::of(found.as_ref(), target.has_vfio);
    let report = Report {
        heading,
        followed: traffic,
        seconds: begin.elapsed().as_secs_f64(),
        lost: trace.lost,
        unknown: trace.unknown,
        device,
        published_steps: device.and_then(|device| known::published(traffic, device)),
        differences: found.as_ref().map(known::differences).unwrap_or_default(),
        explanation: match (&found, costs.filter(|_| arguments.explain)) {
            (Some(found), Some(costs)) => Some(Explanation::new(found, &costs, arguments.bytes as usize)),
            _ => None,
        },
        found,
    };
    sink.put(|_, _| text(&report), || Ok(serde_json::to_string(&report)?))?;
    exit::unless_interrupted(Done::Whole)
}

fn read_costs(file: &Path) -> anyhow::Result<kvm::costs::Costs> {
    let text = std::fs::read(file).with_context(|| {
        format!("reading {}; give a file that `kvm costs --output FILE.json` wrote", file.display())
    })?;
    serde_json::from_slice(&text)
        .map_err(|error| Usage(format!("{}: not a file of `kvm costs`: {error}", file.display())).into())
}

/// Draws a file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    let page = |report: &Report| report::html::sequence::render(&diagram(report));
    crate::show::redraw(file, "kvm path", sink, html, |report, _| text(report), page)
}

fn diagram(report: &Report) -> Sequence {
    let mut sequence =
        Sequence { title: format!("The path of {}", report.followed.name()), ..Sequence::default() };
    sequence.facts.extend(report.explanation.as_ref().and_then(unexplained));
    sequence.facts.push(format!("{}, {:.2} s", report.heading.accelerator, report.seconds));
    if report.heading.emulated {
        sequence.facts.push(EMULATED.into());
    }
    if let Some(found) = &report.found {
        sequence.facts.push(headline(found));
        let lanes = sequence::lanes(found);
        let micros = |ns: u64| ns as f64 / 1e3;
        sequence.arrows = found
            .steps
            .iter()
            .map(|step| Arrow {
                from: sequence::lane(&lanes, &step.from),
                to: sequence::lane(&lanes, &step.to),
                label: by(step),
                time: format!("{:.1} µs, {:.1} µs", micros(step.median_ns), micros(step.max_ns)),
            })
            .collect();
        sequence.lanes = lanes.into_iter().map(|(who, mode)| [who, mode.to_owned()]).collect();
    }
    let mut line = String::new();
    published(&mut line, report, report.found.as_ref().map_or(0, |found| found.steps.len()));
    if let Some(explanation) = &report.explanation {
        explain(&mut line, explanation);
    }
    sequence.notes.extend(line.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    sequence.notes.extend(report.differences.iter().cloned());
    sequence
}

fn headline(found: &Summary) -> String {
    format!(
        "{} steps, {} of them context switches; {} of {} took exactly these; median {:.1} µs, worst {:.1} µs",
        found.steps.len(),
        found.context_switches,
        found.alike,
        found.packets,
        found.median_ns as f64 / 1e3,
        found.max_ns as f64 / 1e3,
    )
}

fn by(step: &Arrows) -> String {
    match step.what.as_str() {
        "" => step.arrow.name().to_owned(),
        what => format!("{}: {what}", step.arrow.name()),
    }
}

const EMULATED: &str = "Emulated CPU: steps are real; times show that each path works, never how fast it is.";

fn place(place: &Place) -> String {
    format!("{} ({}, CPU {})", place.who, place.mode.name(), place.cpu)
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    if let Some(line) = report.explanation.as_ref().and_then(unexplained) {
        let _ = writeln!(text, "{line}\n");
    }
    let name = report.followed.name();
    let _ = writeln!(
        text,
        "Process {}, {}: {name}, traced for {:.2} s",
        report.heading.pid, report.heading.accelerator, report.seconds
    );
    if report.heading.emulated {
        let _ = writeln!(text, "{EMULATED}");
    }
    if report.lost > 0 {
        let _ = writeln!(text, "{} events lost: paths across the gap are missing.", report.lost);
    }
    let Some(found) = &report.found else {
        text += match (report.device, report.followed) {
            (Some(Device::Direct), Traffic::NetTx) => {
                "0 steps: no packet of the guest met the host's kernel; its card is handed on, and takes packets without an exit.\n"
            }
            _ => "Nothing was followed from end to end; is there traffic of this kind?\n",
        };
        published(&mut text, report, 0);
        return text;
    };
    let _ = writeln!(text, "{}\n", headline(found));
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(["", "from", "to", "by", "median µs", "worst µs"]);
    for (number, step) in found.steps.iter().enumerate() {
        let by = by(step);
        let micros = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let number = (number + 1).to_string();
        table.add_row([
            number,
            place(&step.from),
            place(&step.to),
            by,
            micros(step.median_ns),
            micros(step.max_ns),
        ]);
    }
    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}\n\n{}", sequence::text(found));
    for variant in &found.variants {
        let _ = writeln!(text, "{} took {} steps.", variant.packets, variant.steps);
    }
    published(&mut text, report, found.steps.len());
    for difference in &report.differences {
        let _ = writeln!(text, "  {difference}");
    }
    if let Some(explanation) = &report.explanation {
        explain(&mut text, explanation);
    }
    text
}

fn published(text: &mut String, report: &Report, ours: usize) {
    if let (Some(steps), Some(device)) = (report.published_steps, report.device) {
        let _ =
            writeln!(text, "Published (QorIQ T4240, 2014; {}): {steps} steps. Here: {ours}.", device.name());
    }
}

/// What is said before all else, where the rest is large.
fn unexplained(explanation: &Explanation) -> Option<String> {
    let share = 100.0 * explanation.rest_ns / explanation.total_ns.max(1.0);
    explanation.is_rest_large().then(|| match share < 0.0 {
        false => format!("Not explained: {share:.0} % of the time is in no known part."),
        true => format!("Not explained: the known parts are {:.0} % more than the time.", -share),
    })
}

fn explain(text: &mut String, explanation: &Explanation) {
    let total = explanation.total_ns.max(1.0);
    let _ = writeln!(text, "\nThe median packet's {:.1} µs:", total / 1e3);
    for part in &explanation.parts {
        let _ = writeln!(
            text,
            "  {:>6.1} %  {:>9.0} ns  {} × {} ({})",
            100.0 * part.ns() / total,
            part.ns(),
            part.count,
            part.what,
            part.source
        );
    }
    let rest = explanation.rest_ns;
    let _ = writeln!(text, "  {:>6.1} %  {rest:>9.0} ns  the rest: in none of these", 100.0 * rest / total);
}
