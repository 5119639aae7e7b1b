//! The table and the page.
use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use traffic::results::Run;

use super::tables;

/// What stands above all figures: shorter trials and what else makes them not comparable.
pub fn labels(run: &Run) -> Vec<String> {
    let mut labels = run.labels.clone();
    if run.quick {
        labels.push("Quick: trials are shorter than the 60 s of RFC 2544 section 24.".to_owned());
    }
    labels
}

/// What a person reads first.
pub fn text(run: &Run, width: usize) -> String {
    let mut text = String::new();
    for line in run.ports.iter().chain(&labels(run)) {
        let _ = writeln!(text, "{line}");
    }
    for part in tables::of(run) {
        let _ = writeln!(text, "\n{}", part.title);
        if !part.rows.is_empty() {
            let mut table = Table::new();
            table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
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
    text
}

/// One self-contained page.
pub fn page(run: &Run) -> String {
    report::html::figures::render(&super::pages::figures(run))
}
