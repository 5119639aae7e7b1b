//! The group `net` on the page: the ladder as charts, and every figure.

use maud::{Markup, html};

use super::page::scrolling;
use crate::network::table::Table;
use crate::network::{Section, chart, sections};
use crate::plot::legend;
use crate::units;
use crate::view::View;

pub(super) fn section(view: &View) -> Markup {
    let sections = sections(view);
    let roles = chart::roles(view);
    html! {
        @for one in &sections {
            div {
                h3 { "What a packet costs" @if sections.len() > 1 { ", " (units::text(one.environment)) } }
                p {
                    "CPU time of all that works for a flow, for each packet or message that arrived, stacked by role of a thread. A black whisker "
                    "is where the path would end that adds its last piece to the path with one piece less: the interval (at least 95 %) over the starts."
                }
                (legend(&roles))
                (charts(view, one, &roles))
                @for (_, table) in &one.ladders { (tabled(table)) }
                @for table in &one.details { (tabled(table)) }
            }
        }
    }
}

fn charts(view: &View, section: &Section, roles: &[crate::plot::Series]) -> Markup {
    html! {
        div class="plots" {
            @for (work, _) in &section.ladders {
                @if let Some(chart) = chart::draw(view, section.environment, work, roles) {
                    figure { figcaption { (units::text(&work.title)) } (chart) }
                }
            }
        }
    }
}

fn tabled(table: &Table) -> Markup {
    html! {
        h4 { (table.title) }
        (scrolling(html! {
            table {
                thead { tr { @for cell in &table.head { th scope="col" { (cell) } } } }
                tbody {
                    @for row in &table.rows {
                        tr data-find=(row.first().map_or("", String::as_str)) { @for (place, cell) in row.iter().enumerate() {
                            @if place == 0 { th scope="row" { (cell) } } @else { td class="figure" { (cell) } }
                        } }
                    }
                }
            }
        }))
        @if let Some(note) = table.note { p class="note" { (note) } }
    }
}
