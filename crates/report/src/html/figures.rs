//! A page of facts, tables and plots, for results without a baseline.
use maud::{Markup, html};
use measure::Unit;

use super::page::{page, scrolling};
use crate::plot::curves::{Line, draw};
use crate::plot::{Series, legend};
use crate::units;

/// The content of the page.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Its heading.
    pub title: String,
    /// Names and values, above the tables.
    pub facts: Vec<(String, String)>,
    /// The tables, in the order on the page.
    pub tables: Vec<Table>,
    /// The plots, in the order on the page.
    pub plots: Vec<Plot>,
}

/// A table. If it has no rows, its notes say why.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// The headings of the columns.
    pub headings: Vec<String>,
    /// The rows, each with a cell for each heading.
    pub rows: Vec<Vec<String>>,
    /// Explanations of the columns.
    pub notes: Vec<String>,
}

/// A plot with logarithmic axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// The title of the x axis, with its unit.
    pub x_title: String,
    /// The unit of the y axis.
    pub unit: Unit,
    /// Names and points by rising x. A point that is not above 0 leaves a gap.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The page.
pub fn render(figures: &Figures) -> String {
    page(
        &figures.title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (units::text(&figures.title)) } }
            main {
                section {
                    dl {
                        @for (name, value) in &figures.facts {
                            dt { (units::text(name)) } dd { (units::text(value)) }
                        }
                    }
                }
                @for table in &figures.tables { (tabled(table)) }
                section {
                    div class="plots" { @for plot in &figures.plots { (drawn(plot)) } }
                }
            }
            footer { p { "Drawn by Tautline " (env!("CARGO_PKG_VERSION")) "." } }
        },
    )
}

fn tabled(table: &Table) -> Markup {
    html! {
        section {
            h2 { (units::text(&table.title)) }
            @if !table.rows.is_empty() {
                (scrolling(html! {
                    table {
                        thead { tr { @for cell in &table.headings { th { (units::text(cell)) } } } }
                        tbody {
                            @for row in &table.rows { tr { @for cell in row { td { (units::text(cell)) } } } }
                        }
                    }
                }))
            }
            @for note in &table.notes { p { (units::text(note)) } }
        }
    }
}

fn drawn(plot: &Plot) -> Markup {
    let lines: Vec<Line> = plot
        .lines
        .iter()
        .enumerate()
        .map(|(place, (name, points))| Line {
            series: Series { name: name.clone(), place, emulated: false },
            points: points.clone(),
        })
        .collect();
    let series: Vec<Series> = lines.iter().map(|line| line.series.clone()).collect();
    html! {
        div {
            h3 { (units::text(&plot.title)) }
            @match draw(&plot.title, &plot.x_title, &plot.unit, &lines, &[]) {
                Some(picture) => { (legend(&series)) (picture) }
                None => { p { "Nothing to draw." } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_table_and_plots_are_on_the_page_and_text_stays_text() {
        let text = |text: &str| text.to_owned();
        let page = render(&Figures {
            title: text("Rates <b>"),
            facts: vec![(text("port"), text("a & b"))],
            tables: vec![
                Table {
                    title: text("rates"),
                    headings: vec![text("bytes")],
                    rows: vec![vec![text("64")]],
                    notes: vec![text("a note")],
                },
                Table { title: text("bursts"), notes: vec![text("none & why")], ..Table::default() },
            ],
            plots: vec![
                Plot {
                    title: text("loss"),
                    x_title: text("frames/s"),
                    unit: Unit::Other(text("ppm")),
                    lines: vec![(text("64"), vec![(1e6, 1.0), (2e6, 1e4)])],
                },
                Plot { title: text("none"), x_title: text("x"), unit: Unit::Nanos, lines: vec![] },
            ],
        });
        for part in [
            "Rates &lt;b&gt;",
            "a &amp; b",
            "<th>bytes</th>",
            "<td>64</td>",
            "a note",
            "<h2>bursts</h2><p>none &amp; why</p>",
            "<svg",
            "Nothing to draw",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
