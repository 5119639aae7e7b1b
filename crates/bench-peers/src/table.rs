//! Tables: for the terminal, and as Markdown.
use std::fmt::Write;

use comfy_table::{LineStyle, TableStyle};
use measure::bootstrap::RatioEstimate;

use crate::cell::{Cell, DriverKind, Link, System, Topology, ZERO_LOSS_GOAL, has_goals};
use crate::distance::{Distance, Distances};
use crate::overview::{self, Group};
use crate::records::Results;
use crate::summary::{Reached, Row, floor, repeats, rows, zero_loss};

struct Table {
    title: String,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

const CORES: &str = "cores (rounds)";

const HEADER: [&str; 11] = [
    "bytes",
    "ring",
    CORES,
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
        "## {}: {}, {} CPUs{guest}, Linux {}, {}\n\nMpps: millions of frames per second, medians over the \
         rounds ({} in each cell) of {} ms; ratios with 95 % intervals. One switch core (CPU {}), one driver core (CPU {}), rings of 256, \
         {}.\n",
        results.started.split('T').next().unwrap_or_default(),
        host.cpu_model,
        host.cpus_online,
        host.kernel.split(' ').next().unwrap_or_default(),
        results.versions.join(", "),
        results.plan.rounds,
        results.plan.trial_ms,
        results.plan.switch_cpu,
        results.plan.driver_cpu,
        match results.plan.huge_pages {
            true => "huge pages",
            false => "no huge pages, each of DPDK's buffers in a page of its own",
        },
    );
    let mut add = |table: Table| {
        let _ = writeln!(text, "\n### {}\n", table.title);
        lines(&mut text, &table.header, &table.rows);
    };
    overview_table(results).into_iter().for_each(&mut add);
    for driver in [DriverKind::Dpdk, DriverKind::Tautline] {
        for topology in Topology::ALL {
            pivot(&rows(results, driver, topology)).into_iter().for_each(&mut add);
        }
    }
    [floor_table(results), zero_loss_table(results)].into_iter().flatten().for_each(add);
    text + "\n" + &remarks(results)
}

/// One table of a page.
fn pivot(rows: &[Row]) -> Option<Table> {
    let rows: Vec<&Row> = rows.iter().filter(|row| matches!(row.cell.link, Link::Ring(_))).collect();
    let first = rows.first()?;
    let (topology, driver) = (first.cell.topology, first.cell.driver);
    let systems: Vec<System> = System::of(topology)
        .iter()
        .copied()
        .filter(|system| rows.iter().any(|row| row.system == *system))
        .collect();
    let ours = systems.iter().copied().find(|system| system.is_ours());
    let mut header = vec!["bytes", "ring", CORES];
    header.extend(systems.iter().map(|system| system.name()));
    let over = match ours {
        Some(System::TautlineWire) => "wire over testpmd",
        _ => "over testpmd",
    };
    header.extend([over, "floor / target", "limited by"]);
    let mut groups: Vec<(Cell, Distance)> = rows.iter().map(|row| (row.cell, row.distance)).collect();
    groups.retain(|(cell, _)| has_goals(cell.frame_bytes));
    groups.dedup();
    let line = |(cell, distance): &(Cell, Distance)| {
        let row = |system: System| {
            rows.iter().find(|row| row.cell == *cell && row.distance == *distance && row.system == system)
        };
        let mut line = vec![cell.frame_bytes.to_string(), cell.link_name().to_owned()];
        let rounds = systems.iter().filter_map(|system| Some(row(*system)?.rounds)).max();
        line.push(cores(*distance, rounds.unwrap_or(0)));
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
    let rows: Vec<Vec<String>> = groups.iter().map(line).collect();
    let title = format!("{}, Mpps: {}", topology.name(), driver.name());
    (!rows.is_empty()).then_some(Table { title, header, rows })
}

/// Near or far, and in how many rounds.
fn cores(distance: Distance, rounds: usize) -> String {
    format!("{} ({rounds})", distance.name()).trim_start().to_owned()
}

/// What was found, in a few lines.
fn overview_table(results: &Results) -> Option<Table> {
    let found = overview::lines(results);
    let distances: Vec<Distance> = found.first()?.ratios.iter().map(|(distance, _)| *distance).collect();
    let mut header = vec!["driver", "way", "bytes", "rings", "figure"];
    header.extend(distances.iter().map(|distance| match distance {
        Distance::Same => "ratio (rounds)",
        Distance::Near => "near cores (rounds)",
        Distance::Far => "far cores (rounds)",
    }));
    header.push("floor / target");
    let rows = found.iter().map(|line| {
        let Group { driver, figure, topology, frame_bytes, packed } = line.group;
        let mut cells = vec![
            driver.short_name().to_owned(),
            topology.name().to_owned(),
            frame_bytes.to_string(),
            if packed { "packed" } else { "split" }.to_owned(),
            figure.name().to_owned(),
        ];
        cells.extend(line.ratios.iter().map(|(_, ratio)| {
            let Some(ratio) = ratio else { return "–".to_owned() };
            let reached = line.goal.map(|goal| format!(": {}", Reached::of(ratio.ratio, goal).name()));
            format!("{} ({}){}", estimate(*ratio), ratio.blocks, reached.unwrap_or_default())
        }));
        cells.push(line.goal.map_or("–".to_owned(), |goal| format!("{} / {}", goal.floor, goal.target)));
        cells
    });
    let (title, rows) = ("Ratios, all ring paths of a layout together".to_owned(), rows.collect());
    Some(Table { title, header, rows })
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
    let mut tables: Vec<Table> = overview_table(results).into_iter().collect();
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
        of_sides(cores(row.distance, row.rounds)),
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

/// What was near and what was far, if there was both.
fn distances(results: &Results) -> String {
    let distances = Distances::of(results);
    let Distances::Two { limit_ns } = distances else { return String::new() };
    let mut text = format!(
        "The host moved the two CPUs: a line that one has just written took the other less than {limit_ns:.0} ns \
         in some trials and more in others."
    );
    for distance in distances.all() {
        if let Some((line_ns, trials)) = distances.line_ns(results, *distance) {
            let _ = write!(text, " {}: {line_ns:.0} ns, {trials} trials.", distance.name());
        }
    }
    text + " Trials in which it changed are in no figure.\n"
}

fn remarks(results: &Results) -> String {
    let (discarded, noisy) = repeats(results);
    let mut text = distances(results);
    let _ = writeln!(
        text,
        "{discarded} trials were thrown away and repeated, because time was stolen, something else ran (on a core's other thread, too), or the bound changed; {noisy} count \
         though they were disturbed (*)."
    );
    if !results.plan.noise_limits {
        text += "Noise limits were off: these figures show that it works, not how fast it is.\n";
    }
    let _ = writeln!(text, "Fewer than {} rounds carry no interval.", measure::bootstrap::MIN_BLOCKS);
    for line in &results.left_out {
        let _ = writeln!(text, "Not measured: {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{RingPath, Tap};
    use crate::records::{BoundRecord, results_for_tests, trial_for_tests as trial};

    fn results() -> Results {
        let (split, packed) = (Link::Ring(RingPath::Split), Link::Ring(RingPath::Packed));
        let lines = crate::bounds::lines(Topology::Vm2vm, 64);
        Results {
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
            ..results_for_tests()
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
            ["64", "TAP,", "net_tap", "–", "kernel", "bridge", "0.50", "–", "–", "–", "–", "–", "–"]
        );
        let testpmd = line("DPDK testpmd");
        assert_eq!(
            testpmd[5..],
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
                "| 64 | split | (1) | 10.00 | 5.00 | 2.00 | 1 / 1.5: target | both |",
                "| 64 | packed | (1) | 8.00 | 5.00 | 1.60 | 1 / 1.5: target | both |",
                // Beside the slowest ring.
                "| 64 | DPDK driver, payload not touched | TAP, net_tap | 0.50 | 8.00 | 16.0 |",
            ]
        );
        // Figures to the right, words to the left.
        assert!(text.contains("\n|---:|---|---|---:|---:|---:|---|---|\n"), "{text}");
        let mut without = results();
        without.trials.retain(|trial| trial.system != System::KernelBridge);
        assert!(!markdown(&without).contains("bridge"));
    }
}
