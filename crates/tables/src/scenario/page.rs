//! The page of a run.

use lab::chains::{Environment, Results, Run};
use measure::Unit;
use report::html::figures::{self, Figures, Plot};

use super::mark::marked;
use super::users;
use super::view::View;

/// Renders one self-contained page.
pub fn page(results: &Results) -> String {
    figures::render(&drawn(results))
}

fn drawn(results: &Results) -> Figures {
    let View { load, users, stages } = View::of(results);
    let line = |(environment, runs): (&Environment, &[Run])| (marked(environment), users::curve(runs));
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
