//! The text for the terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use torture::Health;

use super::results::Results;

const HEADER: [&str; 9] =
    ["cases of", "cases", "messages", "read", "ring states", "seen", "closed by it", "a second", "findings"];

/// A row for each family with its findings, and the counts of the bystanders.
pub fn text(results: &Results, width: usize) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16).set_header(HEADER);
    let mut findings = String::new();
    for family in &results.families {
        let seconds = family.elapsed_ns as f64 / 1e9;
        table.add_row([
            family.family.name().to_owned(),
            family.cases.to_string(),
            family.messages.to_string(),
            family.messages_read.to_string(),
            family.ring_states.to_string(),
            family.ring_states_seen.to_string(),
            family.closed.to_string(),
            format!("{:.0}", family.seen() as f64 / seconds.max(1e-9)),
            family.findings.len().to_string(),
        ]);
        for finding in &family.findings {
            let what = match finding.health {
                Health::Gone => "it had ended",
                Health::Silent => "it did not answer a right front-end",
                Health::Serves => "it serves",
                Health::WroteElsewhere => "it wrote into memory that it does not have",
            };
            let (first, last) = finding.cases;
            let _ = writeln!(
                findings,
                "{}, cases {first} to {last}: {what}; again by --only {} --seed {} --first {first} --cases {}",
                family.family.name(),
                family.family.name(),
                results.seed,
                last + 1 - first
            );
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("Hostile front-ends at {}\n\n{table}\n\n", results.target.display());
    text.push_str(&findings);
    let total = |count: fn(&torture::Counts) -> u64| results.families.iter().map(count).sum::<u64>();
    let _ = writeln!(
        text,
        "{} hostile messages and {} ring states, of which the back-end has read {} and seen {} for certain; seed {}",
        total(|family| family.messages),
        total(|family| family.ring_states),
        total(|family| family.messages_read),
        total(|family| family.ring_states_seen),
        results.seed
    );
    if let Some(beside) = &results.requests_beside {
        let _ = writeln!(
            text,
            "beside: {} requests sent, {} came back with the right result, the longest after {:.1} ms{}",
            beside.sent,
            beside.right,
            beside.longest_ns as f64 / 1e6,
            beside.failure.as_ref().map_or(String::new(), |failure| format!("; then: {failure}"))
        );
    }
    if let Some(beside) = &results.beside {
        let _ = writeln!(
            text,
            "beside: {} frames sent, {} lost, {} spoiled, {:.0} a second, the longest gap {:.1} ms",
            beside.sent,
            beside.sent.saturating_sub(beside.received),
            beside.spoiled,
            beside.received as f64 / (beside.elapsed_ns as f64 / 1e9).max(1e-9),
            beside.longest_gap_ns as f64 / 1e6
        );
        if beside.echoed > 0 {
            let _ = writeln!(
                text,
                "{} broadcasts came back from others, each of which may hide a lost one: give each port its addresses",
                beside.echoed
            );
        }
        if let (Some(kept), Some(reached)) = (beside.turns.ratio(), beside.turns.reached(beside.asked_per_s))
        {
            let _ = writeln!(
                text,
                "their rate beside hostile front-ends over that without: {kept:.3}, over the {:.0} asked for: {reached:.3}, \
                 medians of {} turns",
                beside.asked_per_s,
                beside.turns.beside_per_s.len()
            );
        }
    }
    text
}
