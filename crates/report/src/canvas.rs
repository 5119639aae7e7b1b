//! Text of a given width: headings, wrapped paragraphs, tables.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, LineStyle, Table, TableStyle};
use measure::compare::{Comparison, Finding};

/// Collects the lines of an output.
pub(crate) struct Canvas {
    width: usize,
    color: bool,
    text: String,
}

impl Canvas {
    pub(crate) fn new(width: usize, color: bool) -> Self {
        Canvas { width, color, text: String::new() }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Adds a heading.
    pub(crate) fn heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.columns(&[], vec![vec![Cell::new(heading).add_attribute(Attribute::Bold)]]);
    }

    /// Words, wrapped.
    pub(crate) fn paragraph(&mut self, words: &str) {
        self.columns(&[], vec![vec![Cell::new(words)]]);
    }

    /// Adds words after a sign. Further lines are indented by the width of the sign.
    pub(crate) fn item(&mut self, sign: &str, words: &str) {
        self.columns(&[], vec![vec![Cell::new(sign), Cell::new(words)]]);
    }

    /// Adds a warning.
    pub(crate) fn warning(&mut self, words: &str) {
        let bold = |cell: Cell| cell.fg(Color::Yellow).add_attribute(Attribute::Bold);
        self.columns(&[], vec![vec![bold(Cell::new("!")), bold(Cell::new(words))]]);
    }

    /// Adds a table with a head. It is as wide as its content, and at most as wide as the output.
    pub(crate) fn columns(&mut self, head: &[String], rows: Vec<Vec<Cell>>) {
        self.draw(table(head, rows));
    }

    /// Adds the first layout that fits without breaking a cell, or the last one if none fits. Says which.
    pub(crate) fn first_that_fits(&mut self, layouts: Vec<(Vec<String>, Vec<Vec<Cell>>)>) -> usize {
        let tables: Vec<Table> = layouts.into_iter().map(|(head, rows)| table(&head, rows)).collect();
        let last = tables.len().saturating_sub(1);
        let chosen = tables.iter().position(|table| natural_width(table) <= self.width).unwrap_or(last);
        if let Some(table) = tables.into_iter().nth(chosen) {
            self.draw(table);
        }
        chosen
    }

    fn draw(&mut self, mut table: Table) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(self.width as u16);
        if self.color {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        for line in table.lines() {
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }
}

fn table(head: &[String], rows: Vec<Vec<Cell>>) -> Table {
    let mut table = Table::new();
    // A line under the head and no other lines: the columns separate the figures.
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    if !head.is_empty() {
        table.set_header(head.iter().map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
    }
    table.add_rows(rows);
    table
}

fn natural_width(table: &Table) -> usize {
    let mut table = table.clone();
    table.set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    table.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0)
}

/// A finding in its colour.
pub(crate) fn finding(comparison: &Comparison) -> Cell {
    colored(Cell::new(crate::view::finding(comparison)), comparison)
}

/// The colour of a finding: red for slower (bold from half as much again), green for faster.
pub(crate) fn colored(cell: Cell, comparison: &Comparison) -> Cell {
    match comparison.finding {
        _ if comparison.emulated => cell.add_attribute(Attribute::Dim),
        Finding::Slower if comparison.slowdown >= 1.5 => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        Finding::Slower => cell.fg(Color::Red),
        Finding::Faster => cell.fg(Color::Green),
        Finding::NoDifferenceShown => cell,
        Finding::TooFewBlocks => cell.fg(Color::Yellow),
    }
}
