//! The text for the terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use lab::chains::Results;
use report::html::figures;

use super::users;
use super::view::View;

/// The number of users that fit, and the stages.
pub fn text(results: &Results, width: usize) -> String {
    let View { load, users, stages } = View::of(results);
    let mut text = format!("{}: {load}\n\n", results.description.title);
    let _ = writeln!(text, "{}\n", drawn(&users, width, 1));
    let _ = writeln!(text, "{}\n", users.notes.join("\n"));
    let _ = writeln!(text, "{}\n", drawn(&stages, width, 3));
    stages.notes.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    let _ = writeln!(text, "\n{}", users::in_short(results).join("\n"));
    text
}

/// Draws a table whose cells are figures from the column `figures_from` on.
fn drawn(of: &figures::Table, width: usize, figures_from: usize) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16);
    table.set_header(&of.headings).add_rows(&of.rows);
    for column in table.column_iter_mut().skip(figures_from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
