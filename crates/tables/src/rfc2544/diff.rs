//! Two runs beside each other: the figures that a gate may limit, before and after.
use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table};
use measure::Unit;
use report::gate::Figure;
use serde::Serialize;
use traffic::results::Run;

use super::gate::figures;
use super::show;

/// The figures of two runs, compared.
#[derive(Debug, Serialize)]
pub struct Diff {
    schema: &'static str,
    /// Labels that must be shown with the figures of each run.
    before_labels: Vec<String>,
    after_labels: Vec<String>,
    figures: Vec<Pair>,
}

/// One figure of both runs; `None` if a run does not have it.
#[derive(Debug, Serialize)]
struct Pair {
    metric: String,
    unit: &'static str,
    before: Option<f64>,
    after: Option<f64>,
    /// The figure after, divided by the figure before.
    ratio: Option<f64>,
}

impl Diff {
    /// Compares the figures: those of the first run in its order, then those that only the second has.
    pub fn new(before: &Run, after: &Run) -> Self {
        let (labels, [before, after]) = ([before, after].map(show::labels), [before, after].map(figures));
        let value = |figures: &[Figure], metric: &str| {
            let figure = figures.iter().find(|figure| figure.metric == metric)?;
            figure.value.clone().ok()
        };
        let new = after.iter().filter(|one| before.iter().all(|other| other.metric != one.metric));
        let pairs = before.iter().chain(new).map(|figure| {
            let [old, new] = [&before, &after].map(|figures| value(figures, &figure.metric));
            let ratio = old.zip(new).map(|(old, new)| new / old).filter(|ratio| ratio.is_finite());
            let unit = if figure.unit == Unit::Nanos { "ns" } else { "frames/s" };
            Pair { metric: figure.metric.clone(), unit, before: old, after: new, ratio }
        });
        let figures = pairs.collect();
        let [before_labels, after_labels] = labels;
        Diff { schema: "tautline-rfc2544-diff/1", before_labels, after_labels, figures }
    }

    /// For people.
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        for (when, labels) in [("before", &self.before_labels), ("after", &self.after_labels)] {
            for label in labels {
                let _ = writeln!(text, "{when}: {label}");
            }
        }
        let mut table = Table::new();
        table.load_style(show::table_style());
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width.min(usize::from(u16::MAX)) as u16);
        table.set_header(["figure", "before", "after", "after / before"]);
        for pair in &self.figures {
            let shown = |value: Option<f64>| match (value, pair.unit) {
                (None, _) => "none".to_owned(),
                (Some(value), "ns") => format!("{:.2} µs", value / 1e3),
                (Some(value), _) => format!("{:.4} Mpps", value / 1e6),
            };
            let ratio = pair.ratio.map_or_else(|| "none".to_owned(), |ratio| format!("{ratio:.3}"));
            table.add_row([pair.metric.clone(), shown(pair.before), shown(pair.after), ratio]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "{table}");
        text
    }
}
