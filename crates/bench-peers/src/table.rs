//! Tables, drawn for the terminal or written as Markdown: what was measured, and nothing that somebody wishes.
use std::fmt::Write;

use comfy_table::{LineStyle, TableStyle};

use crate::cell::{DriverKind, Link, System, Topology, is_headline};
use crate::latency_class::Classes;
use crate::overview::{self, Line};
use crate::programs::Role;
use crate::records::Results;
use crate::summary::{Against, Row, repeats, rows, zero_loss};

struct Table {
    title: String,
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(title: impl Into<String>, header: &[&'static str], rows: Vec<Vec<String>>) -> Option<Self> {
        (!rows.is_empty()).then(|| Table { title: title.into(), header: header.to_vec(), rows })
    }

    fn drawn(&self) -> String {
        let mut drawn = comfy_table::Table::new();
        drawn.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
        drawn.set_header(self.header.clone()).add_rows(self.rows.clone());
        format!("{}\n{drawn}\n", self.title)
    }

    fn markdown(&self) -> String {
        // Columns of nothing but numbers stand to the right.
        let number = |cell: &str| cell == "–" || cell.trim_start_matches(['≥', ' ']).parse::<f64>().is_ok();
        let rules = (0..self.header.len()).map(|at| match self.rows.iter().all(|row| number(&row[at])) {
            true => "---:|",
            false => "---|",
        });
        let mut text = format!(
            "### {}\n\n| {} |\n|{}\n",
            self.title,
            self.header.join(" | "),
            rules.collect::<String>()
        );
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text
    }
}

/// For the terminal: everything.
pub fn terminal(results: &Results) -> String {
    page(results, &|_| true, &Table::drawn)
}

/// For a page: smallest and largest frames. Everything that a reader has to know of a figure's origin is in it.
pub fn markdown(results: &Results) -> String {
    format!("## {}", page(results, &is_headline, &Table::markdown))
}

fn page(results: &Results, sizes: &dyn Fn(u16) -> bool, draw: &dyn Fn(&Table) -> String) -> String {
    let mut text = format!("{}\n\n", heading(results));
    for table in tables(results, sizes) {
        text += &draw(&table);
        text.push('\n');
    }
    text + &remarks(results)
}

/// Of which memory, in words.
fn pages(results: &Results) -> &'static str {
    if results.plan.huge_pages { "huge pages (2 MiB)" } else { "small pages (4 KiB)" }
}

fn heading(results: &Results) -> String {
    let (host, plan) = (&results.host, &results.plan);
    let guest = match host.hypervisor.as_str() {
        "" => String::new(),
        hypervisor => format!(", itself a guest of {hypervisor}"),
    };
    format!(
        "{}: {}, {} CPUs{guest}, Linux {}, {} at both ends\n\nOne device core (CPU {}), one driver core (CPU {}), \
         rings of 256 entries. Rates are millions of frames a second, medians over rounds of {} ms. Sizes are RFC \
         2544's: 64 bytes are 60 in a buffer and 4 of frame check sequence.",
        results.started.split('T').next().unwrap_or_default(),
        host.cpu_model,
        host.cpus_online,
        host.kernel.split(' ').next().unwrap_or_default(),
        pages(results),
        plan.switch_cpu,
        plan.driver_cpu,
        plan.trial_ms,
    )
}

fn tables(results: &Results, sizes: &dyn Fn(u16) -> bool) -> Vec<Table> {
    let mut tables = vec![overview_table(results), programs(results), code_paths(results)];
    for driver in [DriverKind::Dpdk, DriverKind::Tautline] {
        for topology in Topology::ALL {
            let rows = rows(results, driver, topology);
            let lines = rows.iter().filter(|row| sizes(row.cell.frame_bytes)).map(cells).collect();
            tables.push(Table::new(
                format!("{}, {}: {}", topology.name(), pages(results), driver.name()),
                &[
                    "bytes",
                    "ring",
                    "core-to-core (rounds/starts)",
                    "system",
                    "Mpps",
                    "rate over DPDK [rounds] (starts)",
                    "rate over OVS-DPDK",
                    "busy, ns a frame (over DPDK)",
                    "of cache-transfer limit (busy)",
                    "idle device/driver",
                    "limited by",
                ],
                lines,
            ));
        }
    }
    tables.push(zero_loss_table(results));
    tables.into_iter().flatten().collect()
}

/// The run in at most ten rows.
fn overview_table(results: &Results) -> Option<Table> {
    let rate = |row: Option<&Row>| row.map_or_else(none, |row| mpps(row.frames_per_second));
    let busy = |row: Option<&Row>| figure(row.and_then(|row| row.busy_ns_per_frame), 1);
    let line = |Line { own, testpmd, learning, ovs }: &Line| {
        let beside = |own: String, learning: Option<String>| match learning {
            Some(learning) => format!("{own} ({learning})"),
            None => own,
        };
        let to_ovs = learning.as_ref().and_then(|row| row.against(System::OvsLearning));
        vec![
            own.cell.topology.name().to_owned(),
            own.cell.frame_bytes.to_string(),
            own.cell.link_name().to_owned(),
            beside(rate(Some(own)), learning.as_ref().map(|row| rate(Some(row)))),
            rate(testpmd.as_ref()),
            rate(ovs.as_ref()),
            own.against(System::Testpmd).map_or_else(none, estimate),
            to_ovs.map_or_else(none, estimate),
            beside(busy(Some(own)), learning.as_ref().map(|row| busy(Some(row)))),
            busy(testpmd.as_ref()),
            busy(ovs.as_ref()),
            figure(own.against(System::Testpmd).and_then(|against| against.busy), 2),
            own.bottleneck().name().to_owned(),
            rounds(own),
        ]
    };
    Table::new(
        format!("Rate and busy time beside DPDK and Open vSwitch, {}", pages(results)),
        &[
            "frames",
            "bytes",
            "ring",
            "Tautline, Mpps (learning)",
            "DPDK, Mpps",
            "OVS-DPDK, Mpps",
            "rate over DPDK [rounds] (starts)",
            "learning over OVS-DPDK",
            "Tautline, busy ns a frame (learning)",
            "DPDK, busy ns",
            "OVS-DPDK, busy ns",
            "busy over DPDK",
            "limited by",
            "core-to-core (rounds/starts)",
        ],
        overview::lines(results).iter().map(line).collect(),
    )
}

fn programs(results: &Results) -> Option<Table> {
    let line = |program: &crate::programs::Program| {
        vec![program.role.name().to_owned(), program.version.clone(), program.build.clone()]
    };
    Table::new("Programs", &["program", "version", "build"], results.programs.iter().map(line).collect())
}

/// What DPDK's driver took with each system; those with which it took the same stand together.
fn code_paths(results: &Results) -> Option<Table> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for found in &results.code_paths {
        let row = [found.path.name().to_owned(), found.words.join(", "), found.features.clone()];
        let name = found.system.name();
        match rows.iter_mut().find(|there| there[..3] == row) {
            Some(there) if there[3].contains(name) => {}
            Some(there) => there[3] += &format!("; {name}"),
            None => rows.push([&row[..], &[name.to_owned()]].concat()),
        }
    }
    Table::new(
        "Code paths of DPDK's driver, and the features that it agreed on, of which DPDK's device chooses its own",
        &["ring", "paths", "features", "with"],
        rows,
    )
}

fn cells(row: &Row) -> Vec<String> {
    let percent =
        |share: Option<f64>| share.map_or("?".to_owned(), |share| format!("{:.0} %", share * 100.0));
    // Driver and bridge are on one core: neither waits for the other.
    let has_sides = matches!(row.cell.link, Link::Ring(_));
    let of_sides = |words: String| if has_sides { words } else { none() };
    let over = |is_peer: fn(&System) -> bool| {
        row.against.iter().find(|against| is_peer(&against.peer)).map_or_else(none, estimate)
    };
    let busy = match (row.busy_ns_per_frame, row.against(System::Testpmd).and_then(|against| against.busy)) {
        (Some(ns), Some(ratio)) => format!("{ns:.1} ({ratio:.2})"),
        (ns, _) => figure(ns, 1),
    };
    let limit = match (row.of_limit, row.busy_of_limit) {
        (Some(rate), Some(busy)) => format!("{rate:.2} ({busy:.2})"),
        (rate, _) => figure(rate, 2),
    };
    vec![
        row.cell.frame_bytes.to_string(),
        row.cell.link_name().to_owned(),
        of_sides(rounds(row)),
        row.system.name().to_owned() + if row.noisy > 0 { " *" } else { "" },
        mpps(row.frames_per_second),
        over(|peer| *peer == System::Testpmd),
        over(|peer| peer.is_ovs()),
        busy,
        limit,
        of_sides(format!("{} / {}", percent(row.device_idle), percent(row.driver_idle))),
        of_sides(row.bottleneck().name().to_owned()),
    ]
}

fn none() -> String {
    "–".to_owned()
}

fn mpps(frames_per_second: f64) -> String {
    format!("{:.2}", frames_per_second / 1e6)
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(none, |value| format!("{value:.digits$}"))
}

/// The latency class, in how many rounds, and in how many starts these were.
fn rounds(row: &Row) -> String {
    format!("{} ({}/{})", row.class.name(), row.rounds, row.starts).trim_start().to_owned()
}

/// The ratio; an interval that holds 1 shows no difference.
fn estimate(against: &Against) -> String {
    let mut text = format!("{:.2}", against.rate.ratio);
    if let Some((low, high)) = against.rate.interval {
        let _ = write!(text, " [{low:.2}, {high:.2}]");
        if low <= 1.0 && high >= 1.0 {
            text += " no difference shown";
        }
    }
    if !against.by_start.is_empty() {
        let starts: Vec<String> = against.by_start.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let _ = write!(text, " ({})", starts.join(", "));
    }
    text
}

fn zero_loss_table(results: &Results) -> Option<Table> {
    let mpps = |fps: Option<f64>| fps.map_or("undecided".to_owned(), mpps);
    let rows: Vec<Vec<String>> = zero_loss(results)
        .iter()
        .map(|row| {
            let cell = &row.found.cell;
            let us = |(middle, high)| format!("{:.0} / {:.0}", middle as f64 / 1e3, high as f64 / 1e3);
            let latency = row.found.latency_ns.map(|ns: Option<(u64, u64)>| ns.map_or_else(none, us));
            let line = [
                cell.frame_bytes.to_string(),
                cell.topology.name().to_owned(),
                cell.link_name().to_owned(),
                row.found.system.name().to_owned(),
                if row.at_least && row.frames_per_second.is_some() { "≥ " } else { "" }.to_owned()
                    + &mpps(row.frames_per_second),
                mpps(Some(row.found.maximum_fps)),
                figure(row.of_maximum(), 2),
                row.found.search.trials.len().to_string(),
            ];
            [&line[..], &latency].concat()
        })
        .collect();
    let title = format!(
        "Zero loss (ETSI NFV-TST 009, trials of {} ms: quick) beside maximum, rings of {}, {}: {}",
        results.plan.search_trial_ms,
        results.plan.search_ring,
        pages(results),
        DriverKind::Tautline.name()
    );
    let header = [
        "bytes",
        "frames",
        "ring",
        "system",
        "zero loss, Mpps",
        "maximum, Mpps",
        "share",
        "trials",
        "latency at 10 % of that: median / p99, µs",
        "at 50 %",
        "at 90 %",
    ];
    Table::new(title, &header, rows)
}

/// The classes of core-to-core latency, if there were two.
fn classes(results: &Results) -> String {
    let classes = Classes::of(results);
    let Classes::Two { limit_ns } = classes else { return String::new() };
    let mut text = format!(
        "The host moved the two CPUs: a line that one has just written took the other less than {limit_ns:.0} ns \
         in some trials and more in others."
    );
    for class in classes.all() {
        if let Some((line_ns, trials)) = classes.line_ns(results, *class) {
            let _ = write!(text, " {}: {line_ns:.0} ns, {trials} trials.", class.name());
        }
    }
    text + " Each figure is of one class; trials in which it changed are in none.\n"
}

fn remarks(results: &Results) -> String {
    let (discarded, noisy) = repeats(results);
    let plan = &results.plan;
    let mut text = match &plan.no_huge_pages {
        Some(why) => format!(
            "Huge pages were asked for and could not be had, so all of this is with small ones: {why}\n"
        ),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "[rounds]: 95 % interval over the rounds. Rounds of one start share the systems' placement of memory and are \
         not independent of each other, so the interval does not hold what another start would change. (starts): the \
         ratio in each of {} starts alone. Fewer than {} rounds carry no interval.",
        plan.starts,
        measure::bootstrap::MIN_BLOCKS
    );
    text += "Where the driver limits, the rate is the driver's, and the busy time tells the systems apart.\n";
    text +=
        "No latency (–): the generator did not keep to its own schedule there, and it would be its own.\n";
    text += &classes(results);
    let _ = writeln!(
        text,
        "{discarded} trials were thrown away and repeated, because time was stolen, something else ran (on a core's \
         SMT sibling, too), or the core-to-core latency changed; {noisy} count though they were disturbed (*)."
    );
    if !plan.noise_limits {
        text += "Noise limits were off: these figures show that it works, not how fast it is.\n";
    }
    let drivers = [Role::Testpmd, Role::TestpmdDriver].map(|role| {
        results.programs.iter().find(|program| program.role == role).map(|program| &program.version)
    });
    if drivers[0] != drivers[1] {
        text += "DPDK's driver is of another version than DPDK's device.\n";
    }
    for line in &results.left_out {
        let _ = writeln!(text, "Not measured: {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{RingPath, Tap};
    use crate::records::{CodePath, LimitRecord, Trial, results_for_tests, trial_for_tests as trial};

    fn results() -> Results {
        let (split, packed) = (Link::Ring(RingPath::Split), Link::Ring(RingPath::Packed));
        let lines = crate::transfer_limit::lines(Topology::Vm2vm, 64);
        let path = |system| CodePath {
            path: RingPath::Split,
            system,
            words: vec!["standard Rx".to_owned(), "standard Tx".to_owned()],
            features: "VERSION_1".to_owned(),
        };
        Results {
            cache_transfer_limits: vec![LimitRecord {
                cell: trial(split, System::Testpmd, 0.0).cell,
                round: 0,
                lines_to_switch: lines.to_switch,
                lines_to_driver: lines.to_driver,
                lines_apart: 64,
                frames_per_second: 20e6,
            }],
            code_paths: vec![path(System::Testpmd), path(System::TautlineWire), path(System::Testpmd)],
            trials: vec![
                trial(split, System::TautlineWire, 10e6),
                trial(split, System::Testpmd, 5e6),
                trial(packed, System::TautlineWire, 8e6),
                trial(packed, System::Testpmd, 5e6),
                Trial { round: 1, start: 1, ..trial(packed, System::TautlineWire, 6e6) },
                Trial { round: 1, start: 1, ..trial(packed, System::Testpmd, 5e6) },
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
        let rows = text.lines().filter(|line| line.contains("DPDK testpmd") && line.contains('%'));
        assert_eq!(
            words(rows.into_iter().next().unwrap())[5..],
            ["5.00", "–", "–", "50.0", "0.25", "(1.00)", "25", "%", "/", "25", "%", "both"]
        );
    }

    #[test]
    fn a_page_says_when_and_where_and_stands_by_itself() {
        let text = markdown(&results());
        let heading = text.lines().next().unwrap();
        assert!(heading.starts_with("## 2026-01-02: "), "{heading}");
        for fact in ["Some CPU", "Linux 6.1.0,", "huge pages (2 MiB) at both ends"] {
            assert!(heading.contains(fact), "no {fact} in {heading}");
        }
        for line in [
            "| testpmd as device (net_vhost) | DPDK 26.07.0 | as packaged |",
            "| testpmd as driver (net_virtio_user) | DPDK 22.11.11 | as packaged |",
            "| split | standard Rx, standard Tx | VERSION_1 | DPDK testpmd; tautline switch, wire |",
            "| VM2VM | 64 | split | 10.00 | 5.00 | – | 2.00 | – | 50.0 | 50.0 | – | 1.00 | both | (1/1) |",
            // Two starts, each with its ratio.
            "| VM2VM | 64 | packed | 7.00 | 5.00 | – | 1.39 (1.60, 1.20) | – | 50.0 | 50.0 | – | 1.00 | both | (2/2) |",
        ] {
            assert!(text.lines().any(|there| there == line), "no {line} in {text}");
        }
        assert!(text.contains("not independent") && text.contains("another version"), "{text}");
        // Figures to the right, words to the left.
        assert!(
            text.contains("|\n|---|---:|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---|---|\n"),
            "{text}"
        );
    }

    #[test]
    fn tables_hold_what_was_measured_and_no_goals() {
        let mut small = results();
        small.plan.huge_pages = false;
        small.plan.no_huge_pages = Some("the kernel gave 3".to_owned());
        for text in [terminal(&results()), markdown(&results()), terminal(&small), markdown(&small)] {
            for word in
                ["floor", "target", "MISSED", "missed", "goal", " near", " far ", "whole core", "bound"]
            {
                assert!(!text.contains(word), "'{word}' in {text}");
            }
        }
        let text = markdown(&small);
        assert!(text.contains("small pages (4 KiB) at both ends") && !text.contains("(2 MiB)"), "{text}");
        assert!(text.contains("could not be had") && text.contains("the kernel gave 3"), "{text}");
    }
}
