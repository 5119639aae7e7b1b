//! Renders tables in Markdown, which is also readable in a terminal, from a results file alone.
use std::fmt::Write;

use measure::bootstrap::MIN_BLOCKS;
use measure::{Histogram, Verdict};
use peers::build::Program;
use report::coverage;
use report::markdown::NONE;

use crate::cell::{DriverKind, System, is_headline, name};
use crate::figures::{Against, Line, Row, intervals, overview, rows};
use crate::machine::latency_class;
use crate::plan::{RunPlan, SEARCH_RING, SEARCH_TRIAL_MS, TRIAL_MS};
use crate::results::{CodePath, Results, ZeroLoss};

/// The names of programs.
pub const DEVICE: &str = "testpmd as device (net_vhost)";
pub const DRIVER: &str = "testpmd as driver (net_virtio_user)";

/// A column: its heading, and its cell for a row.
type Column<T> = (&'static str, fn(&T) -> String);

fn table<T>(title: &str, columns: &[Column<T>], rows: &[T]) -> String {
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let cells = |row: &T| columns.iter().map(|(_, cell)| cell(row)).collect::<Vec<_>>();
    report::markdown::table(title, &headings, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// The origin of the figures, as far as a reader needs it, and the tables; for all sizes, or for the smallest and the
/// largest frames.
pub fn page(results: &Results, all_sizes: bool) -> String {
    let mut text = heading(results);
    text += &table(
        &format!("Rate and busy time beside DPDK and Open vSwitch, {}", pages(results)),
        OVERVIEW,
        &overview(results),
    );
    text += &table("Programs", PROGRAMS, &results.programs);
    let title = "Code paths of DPDK's driver, and the features that it agreed on, of which DPDK's device chooses its own";
    text += &table(title, CODE_PATHS, &results.code_paths);
    for driver in [DriverKind::Dpdk, DriverKind::Tautline] {
        for topology in &results.plan.topologies {
            let mut rows = rows(results, driver, *topology);
            rows.retain(|row| all_sizes || is_headline(row.cell.frame_bytes));
            let title = format!("{}, {}: {}", name(topology), pages(results), driver.title());
            text += &table(&title, CELLS, &rows);
        }
    }
    let title = format!(
        "Zero loss (`tautline rfc2544`, ETSI NFV-TST 009, trials of {} ms: quick) beside maximum, rings of {}, {}: {}",
        SEARCH_TRIAL_MS,
        SEARCH_RING,
        pages(results),
        DriverKind::Tautline.title()
    );
    let mut zero_loss = results.zero_loss.clone();
    zero_loss.sort_by_key(|row| (row.cell.frame_bytes, row.cell, row.system));
    text + &table(&title, ZERO_LOSS, &zero_loss) + &remarks(results)
}

/// The kind of memory, in words.
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
        "## {}: {}, {} CPUs{guest}, Linux {}, {} at both ends\n\nOne device core (CPU {}), one driver core (CPU {}), \
         rings of 256 entries. Rates are millions of frames a second, medians over rounds of {} ms. Sizes are RFC \
         2544's: 64 bytes are 60 in a buffer and 4 of frame check sequence.{}\n\n",
        results.started.split('T').next().unwrap_or_default(),
        host.cpu_model,
        host.cpus_online,
        host.kernel.split(' ').next().unwrap_or_default(),
        pages(results),
        plan.switch_cpu,
        plan.driver_cpu,
        TRIAL_MS,
        by_flows(plan),
    )
}

/// The flows of a run with flow tables, and its frames.
fn by_flows(plan: &RunPlan) -> String {
    let Some(flows) = &plan.flows else { return String::new() };
    let frames = match (plan.active_flows, plan.answered) {
        (Some(flows), _) => format!("UDP of {flows} flows in each direction"),
        (None, true) => "one connection whose frames are answered".to_owned(),
        (None, false) => "UDP of 256 source addresses".to_owned(),
    };
    format!(" Flow tables of {}; {frames}.", flows.display())
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.digits$}"))
}

fn mpps(frames_per_second: Option<f64>) -> String {
    figure(frames_per_second.map(|fps| fps / 1e6), 2)
}

fn rate(row: &Option<Row>) -> String {
    mpps(row.as_ref().map(|row| row.frames_per_second))
}

fn busy(row: &Option<Row>) -> String {
    figure(row.as_ref().and_then(|row| row.busy_ns_per_frame), 1)
}

/// The first, and the second in parentheses where there is one.
fn with(first: String, second: String) -> String {
    if second == NONE { first } else { format!("{first} ({second})") }
}

fn over_dpdk(row: &Row) -> Option<&Against> {
    row.against(|peer| peer == System::Testpmd)
}

/// The latency class, in how many rounds, and in how many starts these were.
fn class(row: &Row) -> String {
    format!("{} ({}/{})", row.class, row.rounds, row.starts).trim_start().to_owned()
}

/// The ratio; an interval that holds 1 shows no difference.
fn estimate(against: Option<&Against>) -> String {
    let Some(against) = against else { return NONE.to_owned() };
    let mut text = format!("{:.2}", against.rate.ratio);
    if let Some((low, high)) = against.rate.interval {
        let _ = write!(text, " [{low:.2}, {high:.2}]");
        if low <= 1.0 && high >= 1.0 {
            text += " no difference shown";
        }
    }
    let starts: Vec<String> = against.by_start.iter().map(|ratio| format!("{ratio:.2}")).collect();
    if starts.is_empty() { text } else { format!("{text} ({})", starts.join(", ")) }
}

const OVERVIEW: &[Column<Line>] = &[
    ("frames", |line| name(&line.own.cell.topology)),
    ("bytes", |line| line.own.cell.frame_bytes.to_string()),
    ("ring", |line| line.own.cell.ring()),
    ("Tautline, Mpps (learning)", |line| with(mpps(Some(line.own.frames_per_second)), rate(&line.learning))),
    ("DPDK, Mpps", |line| rate(&line.testpmd)),
    ("OVS-DPDK, Mpps", |line| rate(&line.ovs)),
    ("rate over DPDK [rounds] (starts)", |line| estimate(over_dpdk(&line.own))),
    ("learning over OVS-DPDK", |line| {
        estimate(line.learning.as_ref().and_then(|row| row.against(System::is_ovs)))
    }),
    ("Tautline, busy ns a frame (learning)", |line| {
        with(figure(line.own.busy_ns_per_frame, 1), busy(&line.learning))
    }),
    ("DPDK, busy ns", |line| busy(&line.testpmd)),
    ("OVS-DPDK, busy ns", |line| busy(&line.ovs)),
    ("busy over DPDK", |line| figure(over_dpdk(&line.own).and_then(|against| against.busy), 2)),
    ("limited by", |line| line.own.limited_by().to_owned()),
    ("core-to-core (rounds/starts)", |line| class(&line.own)),
];

const PROGRAMS: &[Column<Program>] = &[
    ("program", |program| program.name.clone()),
    ("version", |program| program.version.clone()),
    ("build", |program| program.build.clone()),
];

const CODE_PATHS: &[Column<CodePath>] = &[
    ("ring", |taken| name(&taken.path)),
    ("paths", |taken| taken.words.join(", ")),
    ("features", |taken| taken.features.clone()),
    ("with", |taken| taken.systems.iter().map(name).collect::<Vec<_>>().join(", ")),
];

const CELLS: &[Column<Row>] = &[
    ("bytes", |row| row.cell.frame_bytes.to_string()),
    ("ring", |row| row.cell.ring()),
    ("core-to-core (rounds/starts)", class),
    ("system", |row| name(&row.system) + if row.noisy > 0 { " *" } else { "" }),
    ("Mpps", |row| mpps(Some(row.frames_per_second))),
    ("rate over DPDK [rounds] (starts)", |row| estimate(over_dpdk(row))),
    ("rate over OVS-DPDK", |row| estimate(row.against(System::is_ovs))),
    ("busy, ns a frame (over DPDK)", |row| {
        with(figure(row.busy_ns_per_frame, 1), figure(over_dpdk(row).and_then(|against| against.busy), 2))
    }),
    ("of cache-transfer limit (busy)", |row| with(figure(row.of_limit, 2), figure(row.busy_of_limit, 2))),
    ("idle device/driver, %", |row| {
        let percent = |idle: Option<f64>| figure(idle.map(|idle| idle * 100.0), 0);
        format!("{} / {}", percent(row.device_idle), percent(row.driver_idle))
    }),
    ("limited by", |row| row.limited_by().to_owned()),
];

const ZERO_LOSS: &[Column<ZeroLoss>] = &[
    ("bytes", |row| row.cell.frame_bytes.to_string()),
    ("frames", |row| name(&row.cell.topology)),
    ("ring", |row| row.cell.ring()),
    ("system", |row| name(&row.system)),
    ("throughput, Mpps", |row| match row.throughput() {
        (None, _) => "undecided".to_owned(),
        (fps, at_least) => if at_least { "≥ " } else { "" }.to_owned() + &mpps(fps),
    }),
    ("maximum, Mpps", |row| mpps(Some(row.found.maximum.received_fps))),
    ("of maximum", |row| figure(row.of_maximum(), 2)),
    ("trials", |row| row.found.search.trials().0.to_string()),
    ("latency at 10 % of that: median / p99, µs", |row| latency(row, 10)),
    ("at 50 %", |row| latency(row, 50)),
    ("at 90 %", |row| latency(row, 90)),
];

/// The latency at a percentage of the throughput. At 100 % it is not shown: the queues fill at every pause of a
/// thread, and the generator is at its own limit.
fn latency(row: &ZeroLoss, percent: u8) -> String {
    let at = row.found.latency.iter().find(|latency| latency.percent_of_throughput == percent);
    let known = at.and_then(|latency| latency.histogram.as_ref()).filter(|histogram| histogram.count() > 0);
    let us = |histogram: &Histogram, of: f64| histogram.quantile_ns(of) as f64 / 1e3;
    known.map_or_else(|| NONE.to_owned(), |all| format!("{:.0} / {:.0}", us(all, 0.5), us(all, 0.99)))
}

fn remarks(results: &Results) -> String {
    let plan = &results.plan;
    let small = |why| {
        format!("Huge pages were asked for and could not be had, so all of this is with small ones: {why}")
    };
    let mut lines: Vec<String> = plan.no_huge_pages.iter().map(small).collect();
    lines.push(format!(
        "[rounds]: an interval of the rounds' ratios. {}Fewer than {MIN_BLOCKS} rounds carry no interval. Rounds of one start share the systems' placement \
         of memory and are not independent of each other, so the interval does not hold what another start would \
         change. (starts): the ratio in each of {} starts alone.",
        coverage::of_many(&intervals(results), "rounds"),
        plan.starts(),
    ));
    lines.extend([
        "Where the driver limits, the rate is the driver's, and the busy time tells the systems apart."
            .into(),
        "No latency (–): the generator did not keep to its own schedule there, and it would be its own."
            .into(),
    ]);
    if let Some(limit_ns) = latency_class::limit_ns(results) {
        let of_class = |class: &str| {
            let (line_ns, trials) = latency_class::line_ns(results, limit_ns, class)?;
            Some(format!(" {class}: {line_ns:.0} ns, {trials} trials."))
        };
        let both: String = ["low", "high"].into_iter().filter_map(of_class).collect();
        lines.push(format!(
            "The host moved the two CPUs: a line that one has just written took the other less than {limit_ns:.0} ns \
             in some trials and more in others.{both} Each figure is of one class; trials in which it changed are in \
             none."
        ));
    }
    let count = |of: fn(&Verdict) -> bool| results.trials.iter().filter(|trial| of(&trial.verdict)).count();
    lines.push(format!(
        "{} trials were discarded and repeated, because time was stolen, something else ran (on a core's SMT sibling, \
         too), or the core-to-core latency changed; {} count though they were disturbed (*).",
        count(|verdict| matches!(verdict, Verdict::Discarded(_))),
        count(|verdict| matches!(verdict, Verdict::KeptNoisy(_)))
    ));
    if plan.accept_noise {
        lines.push("Noise limits were off: these figures show that it works, not how fast it is.".into());
    }
    let version =
        |name| results.programs.iter().find(|program| program.name == name).map(|program| &program.version);
    if version(DEVICE) != version(DRIVER) {
        lines.push("DPDK's driver is of another version than DPDK's device.".into());
    }
    lines.extend(results.left_out.iter().map(|line| format!("Not measured: {line}")));
    lines.iter().map(|line| format!("- {line}\n")).collect()
}
