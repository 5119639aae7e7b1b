//! The stages of ticks as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use lab::tti::{Outcome, Results, load_name};

use super::mark::marked;

/// A table for all rows; empty if no stages were found.
pub fn text(results: &Results, width: usize) -> String {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16);
    table.set_header(["environment", "load", "stage", "p50", "p99.9", "max, µs", "published"]);
    let mut worst = Vec::new();
    for row in &results.rows {
        let Ok(outcome) = row.found() else { continue };
        for (place, times) in outcome.stages.stages.iter().enumerate() {
            let once = |text: String| if place == 0 { text } else { String::new() };
            table.add_row([
                once(marked(row)),
                once(load_name(row.load).to_owned()),
                times.stage.name().to_owned(),
                us(times.p50_ns),
                us(times.p999_ns),
                us(times.max_ns),
                times.stage.published_us().map(|us| format!("{us}")).unwrap_or_default(),
            ]);
        }
        let name = || format!("{}, load {}", marked(row), load_name(row.load));
        if outcome.stages.complete < outcome.stages.ticks {
            worst.push(format!("{}: {}", name(), found(outcome)));
        }
        worst.extend(self::worst(outcome).map(|line| format!("{}: {line}", name())));
    }
    if table.row_count() == 0 {
        return String::new();
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("\nStages; each begins where the one before ends\n\n{table}\n\n");
    worst.iter().for_each(|line| _ = writeln!(text, "{line}"));
    text
}

/// The number of ticks for which all stages were found.
pub fn found(outcome: &Outcome) -> String {
    let stages = &outcome.stages;
    format!(
        "all stages of {} of {} ticks ({:.1} %)",
        stages.complete,
        stages.ticks,
        stages.complete_share() * 100.0
    )
}

/// Why the worst tick was late.
pub fn worst(outcome: &Outcome) -> Option<String> {
    let worst = outcome.worst.as_ref()?;
    let us = |ns: u64| format!("{:.1} µs", ns as f64 / 1e3);
    let (stage, longer_ns) = worst.stages.first()?;
    let mut text = format!(
        "the latest, tick {}, came after {}: stage \"{}\" took {} more than usual",
        worst.number,
        us(worst.latency_ns),
        stage.name(),
        us(*longer_ns)
    );
    if let Some(blame) = worst.parts.first() {
        let _ = write!(text, "; {}: {}", blame.cause.text(), us(blame.ns));
    }
    Some(text)
}
