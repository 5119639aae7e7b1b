//! `tautline kvm path`: a packet's steps.

use std::fmt::Write;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use kvm::path::explain::Explanation;
use kvm::path::known::Device;
use kvm::path::{Arrows, Place, Summary, Traffic, sequence};
use lab::traced::path::Report;
use report::html::sequence::{Arrow, Sequence};

/// Renders one self-contained page.
pub fn page(report: &Report) -> String {
    report::html::sequence::render(&diagram(report))
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

/// The steps, the published steps of such a path, and the cost.
pub fn text(report: &Report) -> String {
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

/// The first line, if the rest is large.
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
