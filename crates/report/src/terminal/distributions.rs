//! Metrics that time every event: extremes and quantiles, number of events and time watched.

use comfy_table::Cell as Text;
use measure::compare::Summary;

use crate::view::{Cell, Row, View, environment_name};
use crate::{EMULATED_MARK, units};

use crate::canvas::{Canvas, finding};

/// The columns what, where, median, p99, max, samples, missed.
const ESSENTIAL: [usize; 7] = [0, 1, 3, 4, 5, 6, 7];

pub(super) fn draw(canvas: &mut Canvas, view: &View, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let head = ["what", "where", "min", "median", "p99", "max", "samples", "missed", "beyond max"];
    let head: Vec<String> = head.map(String::from).into();
    let mut with_findings = head.clone();
    with_findings.push("median's slowdown [≥ 95 %]".into());
    let all = || lines(view, rows);
    let plain = all().into_iter().map(|(line, _)| line).collect();
    let full = all()
        .into_iter()
        .map(|(mut line, finding)| {
            line.push(finding.unwrap_or_else(|| Text::new("")));
            line
        })
        .collect();
    // With less room, the smallest and the bound, which follows from the count, stand aside.
    let short = |line: &[Text]| ESSENTIAL.map(|column| line[column].clone()).to_vec();
    let essential = all().into_iter().map(|(line, _)| short(&line)).collect();
    let essential = (ESSENTIAL.map(|column| head[column].clone()).to_vec(), essential);
    if canvas.first_that_fits(vec![(with_findings, full), (head, plain), essential, listed(view, rows)]) > 0 {
        // If there is no room for the last column, it follows below the others.
        for words in slowdowns(view, rows) {
            canvas.item("-", &words);
        }
    }
    canvas.paragraph(
        "beyond max: with none of n samples above it, the share above the maximum is below 3/n (95 %); \
         the maximum is what was seen, not what is possible",
    );
}

fn lines(view: &View, rows: &[Row]) -> Vec<(Vec<Text>, Option<Text>)> {
    let mut lines = Vec::new();
    for row in rows {
        for (place, environment) in view.environments.iter().enumerate() {
            let title = if place == 0 { units::text(&row.spec.title) } else { String::new() };
            let mut line = vec![title, environment_name(environment)];
            match row.cells[place] {
                Cell::Measured(summary, _) => line.extend(figures(summary, environment.emulated)),
                Cell::Absent(_) => line.push("absent".into()),
                Cell::Unknown => line.push("none".into()),
            }
            line.resize(9, String::new());
            let finding = row.cells[place].comparison().map(finding);
            lines.push((line.into_iter().map(Text::new).collect(), finding));
        }
    }
    lines
}

/// min, median, p99, max, samples and the time watched, missed, bound.
fn figures(summary: &Summary, emulated: bool) -> [String; 7] {
    let mark = if emulated { EMULATED_MARK } else { "" };
    let Some(histogram) = &summary.histogram else { return Default::default() };
    let at = |nanos: u64| format!("{}{mark}", units::nanos(nanos));
    [
        at(histogram.min_ns()),
        at(histogram.median_ns()),
        at(histogram.quantile_ns(0.99)),
        at(histogram.max_ns()),
        format!("{} / {}", units::count(histogram.count()), units::watched(summary.watched_ns)),
        units::count(summary.missed),
        units::exceedance_bound(histogram.count()),
    ]
}

/// The slowdowns of a metric's medians, in words.
fn slowdowns(view: &View, rows: &[Row]) -> Vec<String> {
    let found = |row: &Row| -> Option<String> {
        let cells = row.cells.iter().zip(&view.environments);
        let each = cells.filter_map(|(cell, environment)| {
            Some(format!("{} {}", environment_name(environment), crate::view::finding(cell.comparison()?)))
        });
        let all: Vec<String> = each.collect();
        (!all.is_empty())
            .then(|| format!("median's slowdown, {}: {}", units::text(&row.spec.title), all.join("; ")))
    };
    rows.iter().filter_map(found).collect()
}

/// The layout for narrow terminals: the figures one below the other.
fn listed(view: &View, rows: &[Row]) -> (Vec<String>, Vec<Vec<Text>>) {
    let names = ["min", "median", "p99", "max", "samples", "missed", "beyond max"];
    let mut lines = Vec::new();
    for row in rows {
        lines.push(vec![Text::new(units::text(&row.spec.title))]);
        for (place, environment) in view.environments.iter().enumerate() {
            let figures = match row.cells[place] {
                Cell::Measured(summary, _) => figures(summary, environment.emulated)
                    .iter()
                    .zip(names)
                    .map(|(figure, name)| format!("{name} {figure}"))
                    .collect::<Vec<_>>()
                    .join(", "),
                Cell::Absent(_) => "absent, see below".into(),
                Cell::Unknown => "not measured".into(),
            };
            lines.push(vec![Text::new(format!("  {}: {figures}", environment_name(environment)))]);
        }
    }
    (Vec::new(), lines)
}
