//! The tables for the terminal.

mod curves;
mod distributions;
mod footnotes;
mod groups;
mod header;
mod verdicts;

use measure::compare::Analysis;
use measure::{Group, Results};

use crate::canvas::Canvas;
use crate::view::View;

/// The narrowest terminal that tables are laid out for; below it lines are cut by the terminal itself.
const NARROWEST: usize = 40;

/// The whole result as text for a terminal of `width` columns, with or without colours.
pub fn render(results: &Results, analysis: &Analysis, width: usize, color: bool) -> String {
    let view = View::new(results, analysis);
    let mut canvas = Canvas::new(width.max(NARROWEST), color);
    header::draw(&mut canvas, &view);
    for group in Group::ALL {
        let (rows, curves, distributions) = (view.rows(group), view.curves(group), view.distributions(group));
        if rows.is_empty() && curves.is_empty() && distributions.is_empty() {
            continue;
        }
        canvas.heading(group.name());
        if group == Group::Net && !results.network.is_empty() {
            crate::network::draw(&mut canvas, &view);
        }
        // The tables above have every figure of a path, but none beside another environment's.
        if group != Group::Net || view.compares(&rows) {
            groups::draw(&mut canvas, &view, &rows);
        }
        curves::draw(&mut canvas, &view, &curves);
        distributions::draw(&mut canvas, &view, &distributions);
    }
    verdicts::draw(&mut canvas, &view);
    footnotes::draw(&mut canvas, &view);
    canvas.finish()
}
