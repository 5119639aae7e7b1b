//! `tautline kvm costs`: unit costs of exits, interrupts and faults.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use kvm::costs::{self, Cost, Costs};
use report::html::figures::{self, Figures};
use report::units;

const HEADER: [&str; 8] = ["ns", "p50", "p99", "max", "ticks", "n", "vmexit", "ARM study"];
const LEGEND: &str = "ticks: the median in ticks of the TSC. vmexit: the test of kvm-unit-tests that times the same. \
    ARM study: the closest row of \"ARM Virtualization: Performance and Architectural Implications\". Each row includes \
    its two time stamps, the first row.";

/// The content of the last lines, from rows of the table.
const ANSWERS: &[(&str, &[(&str, &str)])] = &[
    (
        "an exit",
        &[
            ("handled in the kernel", "cpuid"),
            ("by an ioeventfd", "port-write-ioeventfd"),
            ("in user space", "port-write-user"),
        ],
    ),
    (
        "an interrupt to a guest",
        &[("that runs", "inject-irqfd-spinning"), ("that is halted", "inject-irqfd-halted")],
    ),
    ("an IPI to a virtual CPU", &[("that runs", "ipi-spinning"), ("that is halted", "ipi-halted")]),
    ("a timer of a guest", &[("that runs", "timer-spinning"), ("that is halted", "timer-halted")]),
    ("the first store to a page", &[("of 4 KiB", "page-fault-4k"), ("of 2 MiB", "page-fault-2m")]),
];

/// Renders one self-contained page.
pub fn page(costs: &Costs) -> String {
    figures::render(&drawn(costs))
}

/// Renders the text for the terminal.
pub fn text(costs: &Costs, width: usize) -> String {
    let mut text = String::new();
    let host = &costs.host;
    let _ = writeln!(text, "{}, {}; kernel {}", costs.accelerator, host.cpu_model, host.kernel);
    let _ = writeln!(text, "{}", settings(costs));
    remarks(costs).iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.min(usize::from(u16::MAX)) as u16);
    table.set_header(HEADER);
    table.add_rows(costs.rows.iter().filter_map(row));
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "\n{table}");
    failures(costs).for_each(|failure| _ = writeln!(text, "{failure}"));
    let _ = writeln!(text, "{LEGEND}");
    answer(costs).iter().for_each(|line| _ = writeln!(text, "{line}"));
    text
}

/// The last lines: the most important medians, each compared with the first median of its line.
fn answer(costs: &Costs) -> Vec<String> {
    let median = |id: &str| {
        let row = costs.rows.iter().find(|row| row.id == id)?;
        Some(row.latency.as_ref()?.quantile_ns(0.5)).filter(|ns| *ns > 0)
    };
    let line = |(what, rows): &(&str, &[(&str, &str)])| {
        let mut shown = rows.iter().filter_map(|(words, id)| Some((words, median(id)?)));
        let (words, base) = shown.next()?;
        let first = format!("{words} {}", units::nanos(base));
        let others = shown.map(|(words, ns)| {
            format!("{words} {} ({})", units::nanos(ns), units::factor(ns as f64 / base as f64))
        });
        let figures: Vec<String> = std::iter::once(first).chain(others).collect();
        Some(format!("  {what}: {}", figures.join(", ")))
    };
    let lines: Vec<String> = ANSWERS.iter().filter_map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    let mark = if costs.emulated { "; the CPU is emulated" } else { "" };
    let absent = costs.rows.iter().filter(|row| row.latency.is_none()).count();
    let gaps = if absent > 0 {
        format!("; {absent} of {} rows not measured", costs.rows.len())
    } else {
        String::new()
    };
    std::iter::once(format!("\nIn short, medians{mark}{gaps}")).chain(lines).collect()
}

/// The page.
fn drawn(costs: &Costs) -> Figures {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut facts = vec![
        fact("accelerator", &costs.accelerator),
        fact("CPU", &costs.host.cpu_model),
        fact("kernel", &costs.host.kernel),
        fact("settings", &settings(costs)),
        fact("begun", &costs.started),
    ];
    facts.extend(remarks(costs).into_iter().map(|remark| ("note".into(), remark)));
    Figures {
        title: "What virtualization costs here: exits, interrupts, faults".into(),
        facts,
        tables: vec![figures::Table {
            title: "Unit costs".into(),
            headings: HEADER.map(str::to_owned).to_vec(),
            rows: costs.rows.iter().filter_map(row).map(Vec::from).collect(),
            notes: failures(costs).chain([LEGEND.into()]).collect(),
        }],
        plots: Vec::new(),
    }
}

fn settings(costs: &Costs) -> String {
    let settings = costs.settings.iter().map(|(name, value)| format!("{name}={value}"));
    settings.collect::<Vec<_>>().join(" ")
}

/// Remarks on the validity of the figures.
fn remarks(costs: &Costs) -> Vec<String> {
    let emulated = "Emulated CPU: these figures show that each path works, never how fast it is.";
    let mut remarks = Vec::from_iter(costs.emulated.then(|| emulated.to_owned()));
    remarks.push(match &costs.alignment {
        Some(alignment) => format!(
            "Clocks of host and guest: off by at most {} ns ({} exchanges); no effect preceded its cause, or its row \
             says so.",
            costs::results::nanoseconds(alignment.error_bound(), costs.tsc_khz),
            alignment.exchanges,
        ),
        None => "Clocks of host and guest drift against each other; rows across both are missing.".into(),
    });
    remarks
}

/// Rows that could not be measured.
fn failures(costs: &Costs) -> impl Iterator<Item = String> {
    costs.rows.iter().filter_map(|cost| Some(format!("{}: {}", cost.id, cost.failure.as_ref()?)))
}

fn row(cost: &Cost) -> Option<[String; 8]> {
    let latency = cost.latency.as_ref()?;
    let quantile = |quantile| latency.quantile_ns(quantile).to_string();
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    Some([
        cost.id.clone(),
        quantile(0.5),
        quantile(0.99),
        latency.max_ns().to_string(),
        cost.median_ticks.unwrap_or(0).to_string(),
        latency.count().to_string(),
        name(&cost.vmexit),
        name(&cost.arm),
    ])
}

#[cfg(test)]
mod tests {
    use kvm::costs::SCHEMA;
    use measure::Failure;
    use measure::host_facts::HostFacts;

    use super::*;

    #[test]
    fn rows_and_why_others_are_missing_are_in_the_text_and_on_the_page() {
        let [first, second] = [&costs::ROWS[0], &costs::ROWS[1]];
        let costs = Costs {
            schema: SCHEMA.into(),
            tautline: String::new(),
            started: String::new(),
            host: HostFacts::gather(),
            accelerator: "kvm-svm <nested>".into(),
            emulated: true,
            settings: vec![("kvm.halt_poll_ns".into(), "0".into())],
            tsc_khz: 1_000_000,
            alignment: None,
            rows: vec![
                Cost::new(first, Ok(vec![4711]), 1_000_000),
                Cost::new(
                    second,
                    Err(Failure::new("asking", "the kernel refused", "boot another")),
                    1_000_000,
                ),
            ],
        };
        let (text, page) = (text(&costs, 120), figures::render(&drawn(&costs)));
        for shown in [first.id, "4711", "the kernel refused", "Emulated CPU", "drift", "kvm.halt_poll_ns=0"] {
            assert!(text.contains(shown) && page.contains(shown), "{shown} in {text} and {page}");
        }
        assert!(page.contains("kvm-svm &lt;nested&gt;"));
    }

    #[test]
    fn the_last_lines_answer_in_medians_and_factors() {
        let cost = |id: &str, ns: Option<u64>| {
            let row = costs::ROWS.iter().find(|row| row.id == id).unwrap();
            let refused = || Failure::new("asking", "the kernel refused", "boot another");
            Cost::new(row, ns.map(|ns| vec![ns]).ok_or_else(refused), 1_000_000)
        };
        let mut costs = Costs {
            schema: SCHEMA.into(),
            tautline: String::new(),
            started: String::new(),
            host: HostFacts::gather(),
            accelerator: "kvm-vmx".into(),
            emulated: false,
            settings: Vec::new(),
            tsc_khz: 1_000_000,
            alignment: None,
            rows: vec![
                cost("cpuid", Some(1000)),
                cost("port-write-user", Some(4000)),
                cost("ipi-spinning", None),
                cost("ipi-halted", Some(9000)),
            ],
        };
        assert_eq!(
            answer(&costs),
            [
                "\nIn short, medians; 1 of 4 rows not measured",
                "  an exit: handled in the kernel 1.00 µs, in user space 4.00 µs (×4.00)",
                "  an IPI to a virtual CPU: that is halted 9.00 µs",
            ]
        );
        assert!(text(&costs, 120).ends_with("that is halted 9.00 µs\n"));
        costs.emulated = true;
        assert!(answer(&costs)[0].contains("the CPU is emulated"));
        // Every row that is named is one that is measured.
        for (_, id) in ANSWERS.iter().flat_map(|(_, rows)| rows.iter()) {
            assert!(costs::ROWS.iter().any(|row| row.id == *id), "{id}");
        }
        costs.rows.clear();
        assert!(answer(&costs).is_empty());
    }
}
