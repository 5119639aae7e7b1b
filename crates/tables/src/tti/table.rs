//! The text for the terminal.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use lab::tti::{Outcome, Results, Row, load_name};
use measure::Histogram;
use ticks::receiver::Wait;

use super::mark::marked;
use super::{in_short, pv_sched_table, stage_table};
use linux::duration;

const HEADER: [&str; 12] = [
    "environment",
    "load",
    "ticks",
    "p50",
    "p99",
    "p99.9",
    "max, µs",
    "late",
    "lost",
    "merged",
    "source p99.9",
    "max, µs",
];

/// A row for each environment and load, followed by the stages and remarks on the rows.
pub fn text(results: &Results, width: usize) -> String {
    let show = |ns: u64| duration::show(Duration::from_nanos(ns)).to_string();
    let way = match results.wait {
        Wait::Interrupt => "woken by an eventfd, a guest through vfio-pci",
        Wait::Poll => "polling shared memory",
        Wait::Timer => "by that CPU's own timer",
    };
    let mut text = format!(
        "A tick every {}, from CPU {} to user space on CPU {}, {way}: from due to running there\n\n",
        show(results.interval_ns),
        results.cpus[0],
        results.cpus[1],
    );
    if !results.pv_sched.is_empty() {
        text.push_str(&pv_sched_table::text(&results.pv_sched, width));
        let rounds = results.pv_sched.iter().flat_map(|one| one.outcome.iter().flatten());
        crate::noise::remark("rounds", rounds).iter().for_each(|remark| _ = writeln!(text, "{remark}"));
        return text;
    }
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16).set_header(HEADER);
    for row in &results.rows {
        table.add_row(cells(row));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}\n");
    let _ = writeln!(
        text,
        "late: more than {} after it was due; merged: found beside a later one",
        show(results.budget_ns)
    );
    text.push_str(&stage_table::text(results, width));
    let mut remarks: Vec<String> = Vec::new();
    for row in &results.rows {
        match row.found() {
            Err(failure) => {
                remarks.push(format!("{}, load {}: {failure}", row.environment, load_name(row.load)))
            }
            Ok(Outcome { sent, received, is_emulated, .. }) => {
                if *is_emulated {
                    remarks.push(format!("{} {}", report::EMULATED_MARK, report::EMULATED_MEANING));
                }
                remarks.extend(
                    sent.remarks
                        .iter()
                        .chain(&received.remarks)
                        .map(|remark| format!("{}: {remark}", row.environment)),
                );
                if sent.skipped > 0 {
                    remarks.push(format!(
                        "{}, load {}: the source was late by whole intervals; {} ticks were not sent",
                        row.environment,
                        load_name(row.load),
                        sent.skipped
                    ));
                }
                if received.before_sent > 0 {
                    remarks.push(format!(
                        "{}, load {}: {} ticks seem to arrive before they were sent: the clocks differ by more than the {} that was found",
                        row.environment, load_name(row.load), received.before_sent, show(received.alignments.error_ns())
                    ));
                }
            }
        }
    }
    let mut said = BTreeSet::new();
    remarks.retain(|remark| said.insert(remark.clone()));
    remarks.extend(noise(results));
    remarks.extend(in_short::lines(results));
    remarks.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    text
}

/// A line on the noisy trials of all rows, if there are some.
pub fn noise(results: &Results) -> Option<String> {
    crate::noise::remark("trials", results.rows.iter().flat_map(Row::attempts))
}

fn cells(row: &Row) -> Vec<String> {
    let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
    let at = |histogram: &Histogram, quantile| us(histogram.quantile_ns(quantile));
    let mut cells = vec![marked(row), load_name(row.load).to_owned()];
    match row.found() {
        Err(_) => cells.resize(HEADER.len(), "–".into()),
        Ok(Outcome { sent, received, .. }) => {
            let latency = &received.from_due;
            cells.push(received.ticks.to_string());
            cells.extend([0.5, 0.99, 0.999].map(|quantile| at(latency, quantile)));
            cells.push(us(latency.max_ns()));
            cells.extend([received.late, received.lost, received.coalesced].map(|count| count.to_string()));
            cells.extend([at(&sent.lateness, 0.999), us(sent.lateness.max_ns())]);
        }
    }
    cells
}
