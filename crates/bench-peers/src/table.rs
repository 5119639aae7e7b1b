//! Tables: for the terminal, and as Markdown.
use std::fmt::Write;

use comfy_table::{LineStyle, TableStyle};
use measure::bootstrap::RatioEstimate;

use crate::cell::{Cell, DriverKind, Link, System, Topology, ZERO_LOSS_GOAL};
use crate::records::Results;
use crate::summary::{Row, floor, repeats, rows, zero_loss};

struct Table {
    title: String,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

const HEADER: [&str; 10] = [
    "bytes",
    "ring",
    "system",
    "Mpps",
    "over testpmd",
    "floor/target",
    "busy ns/frame",
    "of bound (busy)",
    "idle switch/driver",
    "limited by",
];

/// For the terminal.
pub fn terminal(results: &Results) -> String {
    let mut text = String::new();
    for table in tables(results) {
        let mut drawn = comfy_table::Table::new();
        drawn.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        drawn.set_header(table.header);
        drawn.add_rows(table.rows);
        let _ = writeln!(text, "\n{}\n{drawn}", table.title);
    }
    text + "\n" + &remarks(results)
}

/// For a page: smallest and largest frames, one line for each ring, systems side by side. Everything that a
/// reader has to know of a figure's origin is in its heading.
pub fn markdown(results: &Results) -> String {
    let host = &results.host;
    let guest = match host.hypervisor.as_str() {
        "" => String::new(),
        hypervisor => format!(", itself a guest of {hypervisor}"),
    };
    let mut text = format!(
        "## {}: {}, {} CPUs{guest}, Linux {}, {}\n\nMpps: millions of frames per second, medians of {} × {} ms; \
         ratios with 95 % intervals. One switch core (CPU {}), one driver core (CPU {}), rings of 256, \
         no huge pages, {}.\n",
        results.started.split('T').next().unwrap_or_default(),
        host.cpu_model,
        host.cpus_online,
        host.kernel.split(' ').next().unwrap_or_default(),
        results.versions.join(", "),
        results.plan.rounds,
        results.plan.trial_ms,
        results.plan.switch_cpu,
        results.plan.driver_cpu,
        match results.plan.packed_buffers {
            true => "DPDK's buffers side by side",
            false => "each of DPDK's buffers in a page of its own",
        },
    );
    for driver in [DriverKind::Dpdk, DriverKind::Tautline] {
        for topology in Topology::ALL {
            pivot(&mut text, &rows(results, driver, topology));
        }
    }
    for table in [floor_table(results), zero_loss_table(results)].into_iter().flatten() {
        let _ = writeln!(text, "\n### {}\n", table.title);
        lines(&mut text, &table.header, &table.rows);
    }
    text + "\n" + &remarks(results)
}

/// One table of a page.
fn pivot(text: &mut String, rows: &[Row]) {
    let rows: Vec<&Row> = rows.iter().filter(|row| matches!(row.cell.link, Link::Ring(_))).collect();
    let Some(first) = rows.first() else { return };
    let (topology, driver) = (first.cell.topology, first.cell.driver);
    let systems: Vec<System> = System::of(topology)
        .iter()
        .copied()
        .filter(|system| rows.iter().any(|row| row.system == *system))
        .collect();
    let ours = systems.iter().copied().find(|system| system.is_ours());
    let mut header = vec!["bytes", "ring"];
    header.extend(systems.iter().map(|system| system.name()));
    let over =
        ours.map(|ours| format!("{} over testpmd", ours.name().trim_start_matches("tautline switch, ")));
    header.extend([over.as_deref().unwrap_or("over testpmd"), "floor / target", "limited by"]);
    let mut cells: Vec<Cell> = rows.iter().map(|row| row.cell).collect();
    cells.retain(|cell| matches!(cell.frame_bytes, 64 | 1518));
    cells.dedup();
    let line = |cell: &Cell| {
        let row = |system: System| rows.iter().find(|row| row.cell == *cell && row.system == system);
        let mut line = vec![cell.frame_bytes.to_string(), cell.link_name().to_owned()];
        line.extend(systems.iter().map(|system| {
            row(*system).map_or("–".to_owned(), |row| format!("{:.2}", row.frames_per_second / 1e6))
        }));
        let own = ours.and_then(row);
        line.push(own.and_then(|row| row.ratio).map_or("–".to_owned(), estimate));
        let goal = own.and_then(|row| row.goals().into_iter().find(|(name, ..)| *name == "rate"));
        line.push(goal.map_or("–".to_owned(), |(_, _, goal, reached)| {
            format!("{} / {}: {}", goal.floor, goal.target, reached.name())
        }));
        line.push(own.map_or("–", |row| row.bottleneck().name()).to_owned());
        line
    };
    let drawn: Vec<Vec<String>> = cells.iter().map(line).collect();
    let _ = writeln!(text, "\n### {}, Mpps: {}\n", topology.name(), driver.name());
    lines(text, &header, &drawn);
}

fn lines(text: &mut String, header: &[&str], rows: &[Vec<String>]) {
    // Columns of nothing but numbers stand to the right.
    let number = |cell: &str| cell == "–" || cell.trim_start_matches(['≥', ' ']).parse::<f64>().is_ok();
    let rules = (0..header.len()).map(|at| match rows.iter().all(|row| number(&row[at])) {
        true => "---:|",
        false => "---|",
    });
    let _ = writeln!(text, "| {} |\n|{}", header.join(" | "), rules.collect::<String>());
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
}

fn tables(results: &Results) -> Vec<Table> {
    let mut tables = Vec::new();
    for driver in [DriverKind::Dpdk, DriverKind::Tautline] {
        for topology in Topology::ALL {
            let rows = rows(results, driver, topology);
            if !rows.is_empty() {
                let title = format!("{}: {}", topology.name(), driver.name());
                tables.push(Table { title, header: HEADER.to_vec(), rows: rows.iter().map(cells).collect() });
            }
        }
    }
    tables.extend(zero_loss_table(results));
    tables
}

fn cells(row: &Row) -> Vec<String> {
    let none = || "–".to_owned();
    let percent =
        |share: Option<f64>| share.map_or("?".to_owned(), |share| format!("{:.0} %", share * 100.0));
    // Driver and bridge are on one core: neither waits for the other.
    let has_sides = matches!(row.cell.link, Link::Ring(_));
    let of_sides = |words: String| if has_sides { words } else { none() };
    let mut goals = Vec::new();
    for (name, value, goal, reached) in row.goals() {
        let of = match name {
            "rate" => String::new(),
            "OVS" => format!("OVS {value:.2}: "),
            name => format!("{name}: "),
        };
        goals.push(format!("{of}{}/{} {}", goal.floor, goal.target, reached.name()));
    }
    let busy = match (row.busy_ns_per_frame, row.busy_ratio) {
        (Some(ns), Some(ratio)) => format!("{ns:.1} (x {ratio:.2})"),
        (Some(ns), None) => format!("{ns:.1}"),
        _ => none(),
    };
    let bound = match (row.of_bound, row.busy_of_bound) {
        (Some(rate), Some(busy)) => format!("{rate:.2} ({busy:.2})"),
        (Some(rate), None) => format!("{rate:.2}"),
        _ => none(),
    };
    vec![
        row.cell.frame_bytes.to_string(),
        row.cell.link_name().to_owned(),
        row.system.name().to_owned() + if row.noisy > 0 { " *" } else { "" },
        format!("{:.2}", row.frames_per_second / 1e6),
        row.ratio.map_or_else(none, estimate),
        if goals.is_empty() { none() } else { goals.join("; ") },
        busy,
        bound,
        of_sides(format!("{} / {}", percent(row.device_idle), percent(row.driver_idle))),
        of_sides(row.bottleneck().name().to_owned()),
    ]
}

/// The ratio; an interval that holds 1 shows no difference.
fn estimate(ratio: RatioEstimate) -> String {
    match ratio.interval {
        Some((low, high)) if low <= 1.0 && high >= 1.0 => {
            format!("{:.2} [{low:.2}, {high:.2}] no difference shown", ratio.ratio)
        }
        Some((low, high)) => format!("{:.2} [{low:.2}, {high:.2}]", ratio.ratio),
        None => format!("{:.2}", ratio.ratio),
    }
}

/// For a page: the kernel's bridge, and how far above it the switch is.
fn floor_table(results: &Results) -> Option<Table> {
    let mpps = |fps: f64| format!("{:.2}", fps / 1e6);
    let none = || "–".to_owned();
    let line = |(row, wire_fps): (Row, Option<f64>)| {
        vec![
            row.cell.frame_bytes.to_string(),
            row.cell.driver.name().to_owned(),
            row.cell.link_name().to_owned(),
            mpps(row.frames_per_second),
            wire_fps.map_or_else(none, mpps),
            wire_fps.map_or_else(none, |wire| format!("{:.1}", wire / row.frames_per_second)),
        ]
    };
    let rows: Vec<_> = floor(results).into_iter().map(line).collect();
    let header = vec![
        "bytes",
        "driver",
        "attached by",
        "kernel bridge",
        "wire, slowest ring",
        "wire over kernel bridge",
    ];
    let title = "VM2VM, Mpps: the kernel's bridge between two TAPs".to_owned();
    (!rows.is_empty()).then_some(Table { title, header, rows })
}

fn zero_loss_table(results: &Results) -> Option<Table> {
    let mpps = |fps: Option<f64>| fps.map_or("undecided".to_owned(), |fps| format!("{:.2}", fps / 1e6));
    let rows: Vec<Vec<String>> = zero_loss(results)
        .iter()
        .map(|row| {
            let cell = &row.found.cell;
            let goal = row.reached().map_or("–".to_owned(), |reached| {
                format!("{}/{} {}", ZERO_LOSS_GOAL.floor, ZERO_LOSS_GOAL.target, reached.name())
            });
            let latency = row.found.latency_ns.map_or("–".to_owned(), |(middle, high)| {
                format!("{:.0} / {:.0} µs", middle as f64 / 1e3, high as f64 / 1e3)
            });
            vec![
                cell.frame_bytes.to_string(),
                cell.topology.name().to_owned(),
                cell.link_name().to_owned(),
                row.found.system.name().to_owned(),
                if row.at_least && row.frames_per_second.is_some() { "≥ " } else { "" }.to_owned()
                    + &mpps(row.frames_per_second),
                mpps(Some(row.found.maximum_fps)),
                row.of_maximum().map_or("–".to_owned(), |share| format!("{share:.2}")),
                goal,
                latency,
                row.found.search.trials.len().to_string(),
            ]
        })
        .collect();
    let header = vec![
        "bytes",
        "way",
        "ring",
        "system",
        "zero loss, Mpps",
        "maximum, Mpps",
        "share",
        "floor/target",
        "latency there, 50 / 99 %",
        "trials",
    ];
    let title = format!(
        "Zero loss (ETSI NFV-TST 009, trials of {} ms: quick) beside maximum, rings of {}: {}",
        results.plan.search_trial_ms,
        results.plan.search_ring,
        DriverKind::Tautline.name()
    );
    (!rows.is_empty()).then_some(Table { title, header, rows })
}

fn remarks(results: &Results) -> String {
    let (discarded, noisy) = repeats(results);
    let mut text = format!(
        "{discarded} trials were thrown away and repeated because of stolen time or other load; {noisy} count \
         though they were disturbed (*).\n"
    );
    if !results.plan.noise_limits {
        text += "Noise limits were off: these figures show that it works, not how fast it is.\n";
    }
    if results.plan.rounds < measure::bootstrap::MIN_BLOCKS as u32 {
        let _ = writeln!(text, "Fewer than {} rounds carry no interval.", measure::bootstrap::MIN_BLOCKS);
    }
    for line in &results.left_out {
        let _ = writeln!(text, "Not measured: {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use measure::Verdict;
    use measure::host_facts::HostFacts;

    use super::*;
    use crate::cell::{RingPath, Tap};
    use crate::records::{BoundRecord, Plan, SCHEMA, Trial, UsageRecord};

    fn trial(link: Link, system: System, frames_per_second: f64) -> Trial {
        let cell = Cell { driver: DriverKind::Dpdk, topology: Topology::Vm2vm, link, frame_bytes: 64 };
        let usage = match link {
            Link::Ring(_) => UsageRecord { idle_share: Some(0.25), busy_ns_per_frame: Some(50.0) },
            Link::Tap(_) => UsageRecord::default(),
        };
        Trial {
            cell,
            system,
            round: 0,
            attempt: 0,
            frames_per_second,
            window_ns: 1,
            device: usage,
            driver: usage,
            steal_ns: 0,
            other_load_ns: 0,
            clock_jump_ns: 0,
            verdict: Verdict::Accepted,
        }
    }

    fn results() -> Results {
        let host = HostFacts {
            cpu_model: "Some CPU".to_owned(),
            cpus_online: 2,
            kernel: "6.1.0 #1 SMP".to_owned(),
            ..HostFacts::default()
        };
        let lines = crate::bounds::lines(Topology::Vm2vm, 64);
        let (split, packed) = (Link::Ring(RingPath::Split), Link::Ring(RingPath::Packed));
        Results {
            schema: SCHEMA,
            started: "2026-01-02T03:04:05Z".to_owned(),
            host,
            versions: ["tautline 0.1.0", "DPDK 22.11", "Open vSwitch 3.1"].map(str::to_owned).to_vec(),
            plan: Plan {
                quick: false,
                rounds: 1,
                trial_ms: 300,
                search_trial_ms: 200,
                search_ring: 1024,
                driver_cpu: 0,
                switch_cpu: 1,
                limit_s: 60,
                noise_limits: true,
                packed_buffers: false,
            },
            driver_paths: Vec::new(),
            bounds: vec![BoundRecord {
                cell: trial(split, System::Testpmd, 0.0).cell,
                round: 0,
                lines_to_switch: lines.to_switch,
                lines_to_driver: lines.to_driver,
                lines_apart: 64,
                frames_per_second: 20e6,
            }],
            trials: vec![
                trial(split, System::TautlineWire, 10e6),
                trial(split, System::Testpmd, 5e6),
                trial(packed, System::TautlineWire, 8e6),
                trial(packed, System::Testpmd, 5e6),
                trial(Link::Tap(Tap::SystemCalls), System::KernelBridge, 0.5e6),
            ],
            zero_loss: Vec::new(),
            left_out: Vec::new(),
            took: Vec::new(),
        }
    }

    fn words(line: &str) -> Vec<&str> {
        line.split(['|', ' ']).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn the_bridge_has_a_rate_and_nothing_of_rings_and_cores() {
        let text = terminal(&results());
        let line = |name: &str| words(text.lines().find(|line| line.contains(name)).unwrap());
        assert_eq!(
            line("kernel bridge"),
            ["64", "TAP,", "net_tap", "kernel", "bridge", "0.50", "–", "–", "–", "–", "–", "–"]
        );
        let testpmd = line("DPDK testpmd");
        assert_eq!(
            testpmd[4..],
            ["5.00", "–", "–", "50.0", "0.25", "(1.00)", "25", "%", "/", "25", "%", "both"]
        );
    }

    #[test]
    fn a_page_says_when_and_where_and_stands_by_itself() {
        let text = markdown(&results());
        let heading = text.lines().next().unwrap();
        assert!(heading.starts_with("## 2026-01-02: "), "{heading}");
        for fact in ["Some CPU", "Linux 6.1.0,", "DPDK 22.11", "Open vSwitch 3.1"] {
            assert!(heading.contains(fact), "no {fact} in {heading}");
        }
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| 64 |")).collect();
        assert_eq!(
            rows,
            [
                "| 64 | split | 10.00 | 5.00 | 2.00 | 1 / 1.5: target | both |",
                "| 64 | packed | 8.00 | 5.00 | 1.60 | 1 / 1.5: target | both |",
                // Beside the slowest ring.
                "| 64 | DPDK driver, payload not touched | TAP, net_tap | 0.50 | 8.00 | 16.0 |",
            ]
        );
        // Figures to the right, words to the left.
        assert!(text.contains("\n|---:|---|---:|---:|---:|---|---|\n"), "{text}");
        let mut without = results();
        without.trials.retain(|trial| trial.system != System::KernelBridge);
        assert!(!markdown(&without).contains("bridge"));
    }
}
