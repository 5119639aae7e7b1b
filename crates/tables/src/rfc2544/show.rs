//! The text and the page of a run.
use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use traffic::results::Run;

use super::{in_short, tables};

/// Labels above all figures: shorter trials, and other reasons why the figures are not comparable.
pub fn labels(run: &Run) -> Vec<String> {
    let mut labels = run.labels.clone();
    if run.quick {
        labels.push("Quick: trials are shorter than the 60 s of RFC 2544 section 24.".to_owned());
    }
    labels
}

/// Facts of the machine. Facts that could not be read are left out.
pub fn machine(run: &Run) -> Vec<(&'static str, String)> {
    let host = &run.host;
    let mitigations = host.mitigations.iter().map(|(name, state)| format!("{name}: {state}"));
    let facts = [
        ("CPU", format!("{}, {} online", host.cpu_model, host.cpus_online)),
        ("hypervisor", host.hypervisor.clone()),
        ("kernel", host.kernel.clone()),
        ("kernel command line", host.command_line.clone()),
        ("isolated CPUs", host.isolated_cpus.clone()),
        ("huge pages", host.transparent_huge_pages.clone()),
        ("governor", host.governor.clone()),
        ("mitigations", mitigations.collect::<Vec<_>>().join("; ")),
    ];
    facts.into_iter().filter(|(_, fact)| !fact.is_empty()).collect()
}

/// Renders the text for the terminal.
pub fn text(run: &Run, width: usize) -> String {
    let mut text = String::new();
    let facts = machine(run);
    let facts = facts.iter().filter(|(name, _)| ["CPU", "hypervisor", "kernel"].contains(name));
    let facts = facts.map(|(name, fact)| format!("{name}: {fact}")).collect::<Vec<_>>().join("; ");
    for line in run.ports.iter().chain([&facts]).chain(&labels(run)) {
        let _ = writeln!(text, "{line}");
    }
    for part in tables::of(run) {
        let _ = writeln!(text, "\n{}", part.title);
        if !part.rows.is_empty() {
            let mut table = Table::new();
            table.load_style(table_style());
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width.min(usize::from(u16::MAX)) as u16);
            table.set_header(part.headings);
            table.add_rows(part.rows);
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let _ = writeln!(text, "{table}");
        }
        for note in part.notes {
            let _ = writeln!(text, "{note}");
        }
    }
    in_short::lines(run).iter().for_each(|line| _ = writeln!(text, "{line}"));
    text
}

/// A table with one line below the headings, and no other lines.
pub fn table_style() -> TableStyle {
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'))
}
