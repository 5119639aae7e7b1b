//! The group `net`: what a packet costs on each path. The terminal and the page show the same tables.

pub(crate) mod chart;
pub(crate) mod table;
mod tables;

use measure::network::FlowRecord;
use measure::{EnvironmentKind, Failure, Results};

use crate::canvas::Canvas;
use crate::units;
use crate::view::View;
use table::{Table, path_name};

/// The group's tables for one environment.
pub(crate) struct Section<'a> {
    pub(crate) environment: &'a str,
    /// The table of rungs for each work.
    pub(crate) ladders: Vec<(&'a FlowRecord, Table)>,
    /// Tables of CPU time, for the work with the smallest datagrams and for the one with the largest.
    pub(crate) details: Vec<Table>,
}

/// The sections, one for each environment of the same kind as the host in which a flow was measured.
pub(crate) fn sections<'a>(view: &View<'a>) -> Vec<Section<'a>> {
    let results: &'a Results = view.results;
    let network = &results.network;
    let environments = results.environments.iter().filter(|place| place.kind == EnvironmentKind::Host);
    let mut sections = Vec::new();
    for environment in environments {
        let is_there = |flow: &&FlowRecord| view.analysis.summary(&flow.cost, &environment.name).is_some();
        let mut works: Vec<&FlowRecord> = Vec::new();
        for flow in network.flows.iter().filter(is_there) {
            if works.iter().all(|known| known.work != flow.work) {
                works.push(flow);
            }
        }
        let name = environment.name.as_str();
        let ladders: Vec<_> = works.iter().map(|work| (*work, tables::ladder(view, name, work))).collect();
        let datagrams = || works.iter().copied().filter(|work| work.datagrams);
        let (smallest, largest) = (
            datagrams().min_by_key(|work| work.message_bytes),
            datagrams().max_by_key(|work| work.message_bytes),
        );
        let mut details = Vec::new();
        details.extend(smallest.into_iter().flat_map(|work| tables::cpu_time(results, name, work)));
        details.extend(largest.map(|work| tables::line_rates(results, name, work)));
        if !ladders.is_empty() {
            sections.push(Section { environment: name, ladders, details });
        }
    }
    sections
}

/// A line of the summary.
pub(crate) struct Line {
    /// The subject of the figure.
    pub(crate) name: &'static str,
    /// The figures.
    pub(crate) words: String,
}

/// Summary lines for each environment: the cost of a packet of the smallest datagrams on each path, and the pieces
/// that add most.
pub(crate) fn in_short(view: &View) -> Vec<Line> {
    let mut lines = Vec::new();
    for section in sections(view) {
        let works = section.ladders.iter().map(|(work, _)| *work).filter(|work| work.datagrams);
        let Some(work) = works.min_by_key(|work| work.message_bytes) else { continue };
        let costs = tables::costs(view, section.environment, work);
        let words = format!("CPU time a packet, {}: {}", units::text(&work.title), costs.join(", "));
        lines.push(Line { name: "net", words });
        let adds = tables::dearest_pieces(view.results, section.environment, work);
        if !adds.is_empty() {
            lines.push(Line { name: "", words: format!("what a piece adds to it: {}", adds.join("; ")) });
        }
    }
    lines
}

/// Paths that are not there, each with the reason and what to do.
pub(crate) fn missing(results: &Results) -> Vec<(String, &Failure)> {
    let paths = results.network.paths.iter();
    paths.filter_map(|path| Some((format!("path {}", path_name(path)), path.failure.as_ref()?))).collect()
}

/// Draws the group for the terminal.
pub(crate) fn draw(canvas: &mut Canvas, view: &View) {
    for section in sections(view) {
        canvas.paragraph(&format!(
            "near and far end on {}, each path built anew for every start; \"adds\" is what a path costs more than the one \
             with one piece less, with its interval (at least 95 %) over the starts",
            units::text(section.environment)
        ));
        for table in section.ladders.iter().map(|(_, table)| table).chain(&section.details) {
            canvas.paragraph("");
            canvas.paragraph(&table.title);
            let rows =
                table.rows.iter().map(|row| row.iter().map(comfy_table::Cell::new).collect()).collect();
            canvas.columns(&table.head, rows);
            if let Some(note) = table.note {
                canvas.paragraph(note);
            }
        }
    }
}
