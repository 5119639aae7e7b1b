//! What a person sees at a terminal.

use std::fmt::Write;

use super::results::Results;
use super::view::View;

pub fn text(results: &Results, width: usize) -> String {
    let view = View::of(results);
    let mut text = format!("{}: {}\n\n", results.description.title, view.load);
    let _ = writeln!(text, "{}\n", view.users.drawn(width, 1));
    let _ = writeln!(text, "{}\n", view.legend.join("\n"));
    let _ = writeln!(text, "{}\n", view.stages.drawn(width, 3));
    view.remarks.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    text
}
