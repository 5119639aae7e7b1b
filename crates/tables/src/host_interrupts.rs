//! `tautline host interrupts`: shows which of a guest's interrupts reach it without the host's software.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use kvm::interrupts::Path;
use lab::traced::interrupts::Proof;

/// The features that the host reports, the counts, and the exits during the count.
pub fn text(proof: &Proof, width: usize) -> String {
    let heading = &proof.heading;
    let mut text = format!("Process {}, {}: {:.2} s\n\n", heading.pid, heading.accelerator, proof.seconds);
    let _ = writeln!(text, "What the host has, by its own word");
    for feature in &proof.features {
        let _ = writeln!(text, "  {} ({}): {}", feature.title, feature.rule, feature.found);
    }
    let _ = writeln!(text, "\nWhat was counted");
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.clamp(40, 1000) as u16);
    table.set_header(["line", "device", "guest took", "host delivered", "injected", "vector", "path"]);
    let number = |count: Option<u64>| count.map_or("–".to_owned(), |count| count.to_string());
    for line in &proof.lines {
        let vectors: Vec<String> = line.vectors.iter().map(|vector| format!("{vector:#x}")).collect();
        let path = match &line.path {
            Path::Direct => "direct".to_owned(),
            Path::Forwarded => "forwarded".into(),
            Path::Unknown(why) => format!("unknown: {why}"),
        };
        table.add_row([
            report::units::text(&line.line),
            report::units::text(&line.about),
            line.taken.to_string(),
            number(line.delivered),
            number(line.injected),
            vectors.join(" "),
            report::units::text(&path),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}\n");
    let all: u64 = proof.exits.reasons.iter().map(|count| count.count).sum();
    let mut by_reason: Vec<(String, u64)> = Vec::new();
    for count in &proof.exits.reasons {
        match by_reason.iter_mut().find(|(reason, _)| *reason == count.reason) {
            Some((_, sum)) => *sum += count.count,
            None => by_reason.push((count.reason.clone(), count.count)),
        }
    }
    by_reason.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let reasons: Vec<String> =
        by_reason.iter().take(6).map(|(reason, count)| format!("{reason} {count}")).collect();
    let _ = writeln!(text, "{all} exits: {}", reasons.join(", "));
    if !proof.other_guests.is_empty() {
        let others: Vec<String> = proof.other_guests.iter().map(u32::to_string).collect();
        let _ = writeln!(text, "Other guests run (processes {}): end them for a proof", others.join(", "));
    }
    if proof.dropped > 0 {
        let _ = writeln!(text, "{} events were lost", proof.dropped);
    }
    text
}
