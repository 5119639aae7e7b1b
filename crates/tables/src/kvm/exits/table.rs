//! The text of a trace.

use std::fmt::Write;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use kvm::trace::Times;
use lab::traced::exits::Trace;

/// Renders the whole trace as text.
pub fn text(trace: &Trace) -> String {
    let mut text = format!("{}\n\n", heading(trace).join("\n"));
    if trace.statistics.is_empty() {
        text += &times(&trace.times, trace.seconds);
    } else {
        let rows = trace.statistics.iter().map(|count| {
            vec![
                count.name.clone(),
                count.count.to_string(),
                format!("{:.0}", count.count as f64 / trace.seconds.max(1e-9)),
            ]
        });
        let _ = writeln!(text, "{}", table(&["counted by KVM", "how often", "1/s"], 1, rows));
    }
    for note in notes(trace) {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// The process, the time and the method of the trace, and remarks on its figures.
pub(super) fn heading(trace: &Trace) -> Vec<String> {
    let headline = format!(
        "Process {}, {}: exits in {:.2} s, counted by {}",
        trace.heading.pid, trace.heading.accelerator, trace.seconds, trace.method
    );
    let emulated = "Emulated CPU: counts are real; times show that each path works, never how fast it is.";
    [Some(headline), trace.heading.emulated.then(|| emulated.into())].into_iter().flatten().collect()
}

/// Lines below the tables: the cost of tracing, and missing values.
pub(super) fn notes(trace: &Trace) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(overhead) = &trace.overhead {
        let exits = trace.times.reasons.iter().map(|reason| reason.count).sum();
        let share = overhead.share(exits, trace.times.vcpus.len(), trace.seconds);
        notes.push(format!(
            "overhead: {:.0} ns for each exit, {:.2} % of the virtual CPUs' time (measured: an exit of a guest of our \
             own took {:.0} ns before, {:.0} ns while, {:.0} ns after tracing; times the exits)",
            overhead.exit_ns(),
            share * 100.0,
            overhead.before_ns,
            overhead.traced_ns,
            overhead.after_ns,
        ));
        if overhead.exit_ns() <= overhead.spread_ns() {
            notes
                .push("overhead: not told from nothing, the two times without tracing differ by more".into());
        }
    }
    notes.extend(trace.not_measured.iter().map(|missing| format!("not measured: {missing}")));
    notes
}

/// Exits by reason, and where the time went.
pub fn times(times: &Times, seconds: f64) -> String {
    let mut text = String::new();
    let whole: u64 = times.reasons.iter().map(|reason| reason.count).sum();
    let reasons = times.reasons.iter().map(|reason| {
        let mean_ns = reason.time_ns as f64 / reason.count.max(1) as f64;
        vec![
            reason.vcpu.to_string(),
            reason.reason.clone(),
            reason.count.to_string(),
            format!("{:.0}", reason.count as f64 / seconds.max(1e-9)),
            ms(reason.time_ns),
            ms(reason.user_ns),
            ms(reason.halted_ns),
            format!("{:.2}", mean_ns / 1e3),
            at_most(reason.at_most_ns(0.5)),
            at_most(reason.at_most_ns(0.99)),
            at_most(reason.at_most_ns(1.0)),
        ]
    });
    let headings = [
        "vCPU",
        "reason",
        "exits",
        "1/s",
        "time, ms",
        "in user space",
        "halted besides",
        "mean, µs",
        "p50, µs",
        "p99",
        "max",
    ];
    let _ = writeln!(text, "{}\n", table(&headings, 2, reasons));
    let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
    let vcpus = times.vcpus.iter().map(|vcpu| {
        vec![
            vcpu.vcpu.to_string(),
            ms(vcpu.guest_ns),
            ms(vcpu.kernel_ns),
            ms(vcpu.user_ns),
            ms(vcpu.halted_ns),
            ms(vcpu.waited_ns),
            format!("{:.0}", vcpu.accounted_guest_ns as f64 / 1e6),
            format!("{:.0}", vcpu.accounted_host_ns as f64 / 1e6),
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
        "accounted: guest",
        "host",
        "involuntary switches",
        "wake-ups",
        "injections",
        "ioeventfd",
    ];
    let _ = writeln!(text, "{}", table(&headings, 1, vcpus));
    let _ = writeln!(
        text,
        "{whole} exits; {} irqfd signals by its own threads; {} events lost",
        count(times.irqfd_signals),
        times.lost
    );
    text
}

/// A length is known to the next power of two.
fn at_most(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("<{:.1}", ns as f64 / 1e3))
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
