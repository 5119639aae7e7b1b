//! `report` of a file that `scenario` wrote.

use std::path::Path;

use measure::Unit;
use report::html::figures::{self, Figures, Plot};

use super::layout::Table;
use super::results::Results;
use super::view::View;
use super::{table, users};
use crate::exit::Done;
use crate::output::Sink;

/// Draws a file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    let page = |results: &Results| figures::render(&drawn(results));
    crate::show::redraw(file, "scenario", sink, html, table::text, page)
}

fn drawn(results: &Results) -> Figures {
    let view = View::of(results);
    let table = |title: &str, table: Table, notes| figures::Table {
        title: title.into(),
        headings: table.header,
        rows: table.rows,
        notes,
    };
    let line = |(environment, runs): (&super::results::Environment, &[_])| {
        (environment.marked(), users::curve(runs))
    };
    Figures {
        title: format!("How many users fit? {}", results.description.title),
        facts: vec![
            ("load".into(), view.load),
            ("host".into(), results.origin.host.cpu_model.clone()),
            ("kernel".into(), results.origin.host.kernel.clone()),
            ("begun".into(), results.origin.started.clone()),
        ],
        tables: vec![
            table("Users by environment", view.users, view.legend),
            table("Stage by stage", view.stages, view.remarks),
        ],
        plots: vec![Plot {
            title: "Ticks missed, by users of a cell".into(),
            x_title: "users of a cell".into(),
            unit: Unit::Other("‰".into()),
            lines: results.ran().into_iter().map(line).collect(),
        }],
    }
}
