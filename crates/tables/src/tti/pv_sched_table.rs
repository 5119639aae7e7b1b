//! The text for para-virtualized scheduling.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use lab::tti::{PvSched, Round, Sharing};
use measure::Histogram;
use measure::statistics::median;

const HEADER: [&str; 7] = ["environment", "receiver's CPU", "p50", "p99", "max, µs", "lost", "raised"];

/// A table, and the ratios with their intervals.
pub fn text(environments: &[PvSched], width: usize) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16).set_header(HEADER);
    let mut remarks = Vec::new();
    for one in environments {
        let mark = if one.is_emulated { report::EMULATED_MARK } else { "" };
        match &one.outcome {
            Err(failure) => remarks.push(format!("{}: {failure}", one.environment)),
            Ok(_) => {
                for sharing in Sharing::ALL {
                    let rounds: Vec<_> = one.rounds(sharing).collect();
                    table.add_row(cells(&format!("{}{mark}", one.environment), sharing, &rounds));
                }
                remarks.push(ratio(one));
            }
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n\n");
    if environments.iter().any(|one| one.is_emulated) {
        remarks.push(format!("{} {}", report::EMULATED_MARK, report::EMULATED_MEANING));
    }
    remarks.push(
        "p50, p99: medians of the rounds; raised: part of the time, of which a fifth is the limit".into(),
    );
    remarks.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    text
}

fn cells(name: &str, sharing: Sharing, rounds: &[&Round]) -> Vec<String> {
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    let middle = |of: &dyn Fn(&Histogram) -> u64| {
        let values: Vec<f64> = rounds.iter().map(|round| of(&round.from_due) as f64).collect();
        median(&values).map_or("–".into(), us)
    };
    let max = rounds.iter().map(|round| round.from_due.max_ns()).max().unwrap_or_default();
    let raised: Vec<f64> = rounds.iter().map(|round| round.raised_share).collect();
    vec![
        name.to_owned(),
        sharing.name().to_owned(),
        middle(&|latency| latency.median_ns()),
        middle(&|latency| latency.quantile_ns(0.99)),
        us(max as f64),
        rounds.iter().map(|round| round.lost).sum::<u64>().to_string(),
        match sharing {
            Sharing::Raised => format!("{:.1} %", 100.0 * median(&raised).unwrap_or_default()),
            _ => String::new(),
        },
    ]
}

fn ratio(one: &PvSched) -> String {
    let ratios = one.ratios();
    let Some(middle) = median(&ratios) else { return format!("{}: no whole round", one.environment) };
    let interval = match measure::median_interval::interval(&ratios) {
        Some((low, high)) => format!(" [{low:.3}, {high:.3}], at least 95 %"),
        None => ", too few rounds for an interval".into(),
    };
    format!("{}: the p99 of a shared CPU with pv-sched is ×{middle:.3}{interval}", one.environment)
}
