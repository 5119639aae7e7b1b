//! A page of facts, one table and plots, for results that have no baseline to be compared to.
use maud::{Markup, html};
use measure::Unit;

use super::page;
use crate::plot::curves::{Line, draw};
use crate::plot::{Series, legend};
use crate::units;

/// All that is on the page.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Its heading.
    pub title: String,
    /// Names and values, above the table.
    pub facts: Vec<(String, String)>,
    /// The table: first row the headings.
    pub table: Vec<Vec<String>>,
    /// What the table's columns mean.
    pub notes: Vec<String>,
    /// In this order.
    pub plots: Vec<Plot>,
}

/// A plot with logarithmic axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// What goes to the right, with its unit.
    pub x_title: String,
    /// What goes up.
    pub unit: Unit,
    /// Name and points by rising x; what is not above 0 leaves a gap.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The page.
pub fn render(figures: &Figures) -> String {
    let (head, rows) =
        figures.table.split_first().map_or((&[][..], &[][..]), |(head, rows)| (&head[..], rows));
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
                section {
                    div class="scroll" {
                        table {
                            thead { tr { @for cell in head { th { (units::text(cell)) } } } }
                            tbody { @for row in rows { tr { @for cell in row { td { (units::text(cell)) } } } } }
                        }
                    }
                    @for note in &figures.notes { p { (units::text(note)) } }
                }
                @for plot in &figures.plots { (drawn(plot)) }
            }
            footer { p { "Drawn by Tautline " (env!("CARGO_PKG_VERSION")) "." } }
        },
    )
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
        section {
            h2 { (units::text(&plot.title)) }
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
            table: vec![vec![text("bytes")], vec![text("64")]],
            notes: vec![text("a note")],
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
            "<svg",
            "Nothing to draw",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
