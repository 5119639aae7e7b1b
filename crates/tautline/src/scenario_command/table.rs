//! What a person sees at a terminal.

use std::fmt::Write;

use super::layout::{right_from, table};
use super::results::Results;
use super::view::{Table, View};

pub fn text(results: &Results, width: usize) -> String {
    let view = View::of(results);
    let drawn = |of: &Table, figures_from| {
        let header: Vec<&str> = of.header.iter().map(String::as_str).collect();
        let mut table = table(width, &header);
        table.add_rows(&of.rows);
        right_from(&mut table, figures_from);
        table
    };
    let mut text = format!("{}: {}\n\n", results.description.title, view.load);
    let _ = writeln!(text, "{}\n", drawn(&view.users, 1));
    let _ = writeln!(text, "{}\n", view.legend.join("\n"));
    let _ = writeln!(text, "{}\n", drawn(&view.stages, 3));
    view.remarks.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    text
}
