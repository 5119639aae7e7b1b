//! What tables of scenarios look like.

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};

/// Cells by row.
pub struct Table {
    pub header: Vec<String>,
    /// Each as wide as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// At a terminal; from this column on cells are figures.
    pub fn drawn(&self, width: usize, figures_from: usize) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16);
        table.set_header(&self.header).add_rows(&self.rows);
        for column in table.column_iter_mut().skip(figures_from) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}
