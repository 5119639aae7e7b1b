//! Metrics with one value a trial: the name, the baseline's figure, and each environment beside it.

use comfy_table::Cell as Text;

use crate::units;
use crate::view::{Cell, Row, View, environment_name, figure};

use crate::canvas::{Canvas, finding};

pub(super) fn draw(canvas: &mut Canvas, view: &View, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    canvas.first_that_fits(vec![side_by_side(view, rows), stacked(view, rows), listed(view, rows)]);
}

fn is_base(view: &View, place: usize) -> bool {
    view.results.base().is_some_and(|base| view.environments[place].name == base.name)
}

/// The figure's text and the finding beside it.
fn texts(view: &View, row: &Row, place: usize) -> (String, Option<Text>) {
    let environment = view.environments[place];
    match row.cells[place] {
        Cell::Measured(summary, comparison) => {
            let beside = match comparison {
                Some(comparison) => Some(finding(comparison)),
                None if is_base(view, place) => None,
                None => Some(Text::new("no ratio: the base has none")),
            };
            (figure(summary, row.spec, environment.emulated), beside)
        }
        Cell::Absent(_) => ("absent, see below".into(), None),
        Cell::Unknown => ("not measured".into(), None),
    }
}

/// Two columns an environment: figure, slowdown.
fn side_by_side(view: &View, rows: &[Row]) -> (Vec<String>, Vec<Vec<Text>>) {
    let mut head = vec!["what".to_owned()];
    for (place, environment) in view.environments.iter().enumerate() {
        head.push(environment_name(environment));
        if !is_base(view, place) {
            head.push("slowdown [≥ 95 %]".into());
        }
    }
    let line = |row: &Row| {
        let mut line = vec![Text::new(units::text(&row.spec.title))];
        for place in 0..view.environments.len() {
            let (figure, beside) = texts(view, row, place);
            line.push(Text::new(figure));
            if !is_base(view, place) {
                line.push(beside.unwrap_or_else(|| Text::new("")));
            }
        }
        line
    };
    (head, rows.iter().map(line).collect())
}

/// One column an environment, the slowdown on a second line.
fn stacked(view: &View, rows: &[Row]) -> (Vec<String>, Vec<Vec<Text>>) {
    let mut head = vec!["what".to_owned()];
    head.extend(view.environments.iter().map(|environment| environment_name(environment)));
    let mut lines = Vec::new();
    for row in rows {
        let (mut first, mut second) = (vec![Text::new(units::text(&row.spec.title))], vec![Text::new("")]);
        for place in 0..view.environments.len() {
            let (figure, beside) = texts(view, row, place);
            first.push(Text::new(figure));
            second.push(beside.unwrap_or_else(|| Text::new("")));
        }
        lines.push(first);
        lines.push(second);
    }
    (head, lines)
}

/// One line an environment under the metric's title.
fn listed(view: &View, rows: &[Row]) -> (Vec<String>, Vec<Vec<Text>>) {
    let mut lines = Vec::new();
    for row in rows {
        lines.push(vec![Text::new(units::text(&row.spec.title)), Text::new("")]);
        for (place, environment) in view.environments.iter().enumerate() {
            let (figure, beside) = texts(view, row, place);
            let figure = format!("  {} {figure}", environment_name(environment));
            lines.push(vec![Text::new(figure), beside.unwrap_or_else(|| Text::new(""))]);
        }
    }
    (vec!["what".into(), "slowdown [≥ 95 %]".into()], lines)
}
