//! `report` of a file that `scenario` wrote.

use std::path::Path;

use measure::Unit;
use report::html::figures::{self, Figures, Plot};

use super::results::{Environment, Results, Run};
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
    let View { load, users, stages } = View::of(results);
    let line = |(environment, runs): (&Environment, &[Run])| (environment.marked(), users::curve(runs));
    Figures {
        title: format!("How many users fit? {}", results.description.title),
        facts: vec![
            ("load".into(), load),
            ("host".into(), results.origin.host.cpu_model.clone()),
            ("kernel".into(), results.origin.host.kernel.clone()),
            ("begun".into(), results.origin.started.clone()),
        ],
        tables: vec![users, stages],
        plots: vec![Plot {
            title: "Ticks missed, by users of a cell".into(),
            x_title: "users of a cell".into(),
            unit: Unit::Other("‰".into()),
            lines: results.ran().into_iter().map(line).collect(),
        }],
    }
}
