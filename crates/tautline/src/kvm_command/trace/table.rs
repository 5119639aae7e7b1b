//! What a person reads of a trace.

use std::fmt::Write;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::written::Trace;

pub fn text(trace: &Trace) -> String {
    let mut text = format!(
        "Process {}, {}: exits in {:.2} s, counted and timed by {}\n\n",
        trace.pid, trace.accelerator, trace.seconds, trace.method
    );
    let whole: u64 = trace.times.reasons.iter().map(|reason| reason.count).sum();
    let reasons = trace.times.reasons.iter().map(|reason| {
        let mean_ns = reason.time_ns as f64 / reason.count.max(1) as f64;
        vec![
            reason.vcpu.to_string(),
            reason.reason.clone(),
            reason.count.to_string(),
            format!("{:.0}", reason.count as f64 / trace.seconds),
            ms(reason.time_ns),
            ms(reason.user_ns),
            ms(reason.halted_ns),
            format!("{:.2}", mean_ns / 1e3),
        ]
    });
    let headings =
        ["vCPU", "reason", "exits", "1/s", "time, ms", "in user space", "halted besides", "mean, µs"];
    let _ = writeln!(text, "{}\n", table(&headings, 2, reasons));
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let vcpus = trace.times.vcpus.iter().map(|vcpu| {
        vec![
            vcpu.vcpu.to_string(),
            ms(vcpu.guest_ns),
            ms(vcpu.kernel_ns),
            ms(vcpu.user_ns),
            ms(vcpu.halted_ns),
            ms(vcpu.waited_ns),
            vcpu.involuntary_switches.to_string(),
            vcpu.wake_ups.to_string(),
            count(vcpu.injections),
            count(vcpu.ioeventfd_signals),
        ]
    });
    let headings = [
        "vCPU",
        "guest, ms",
        "kernel",
        "user space",
        "halted",
        "waited for a CPU",
        "involuntary switches",
        "wake-ups",
        "injections",
        "ioeventfd",
    ];
    let _ = writeln!(text, "{}", table(&headings, 1, vcpus));
    let _ = writeln!(
        text,
        "{whole} exits; {} irqfd signals by its own threads; {} events lost",
        count(trace.times.irqfd_signals),
        trace.times.lost
    );
    text
}

fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Columns from `right` on are figures.
fn table(headings: &[&str], right: usize, rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(headings);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(right) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
