//! What tables of scenarios look like.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

pub fn table(width: usize, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16).set_header(header);
    table
}

pub fn right_from(table: &mut Table, column: usize) {
    for column in table.column_iter_mut().skip(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
