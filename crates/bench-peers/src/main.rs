//! `make bench-peers`: our switch beside DPDK's testpmd, Open vSwitch and the kernel's bridge on this machine,
//! with the same drivers at the other end. docs/benchmarks.md says what the columns mean.
#![forbid(unsafe_code)]

mod bench;
mod bounds;
mod cell;
mod child;
mod cpus;
mod device;
mod distance;
mod driver;
mod endpoint;
mod floor;
mod generator;
mod interrupt;
mod order;
mod overview;
mod own;
mod progress;
mod records;
mod rounds;
mod siblings;
mod summary;
mod table;
mod usage;
mod window;
mod zero_loss;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use measure::host_facts::HostFacts;
use peers::{Pages, pages};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use bench::{Bench, Place};
use cell::{RingPath, System, Topology};
use interrupt::{Interrupt, Interrupted};
use order::Order;
use records::{Plan, Results};

/// How long something that was started may take to come up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What nine of DPDK's testpmd, two Open vSwitches and our generators take of the system's huge pages.
const HUGE_PAGES_MIB: u64 = 1400;

/// Rounds at sizes without goals: enough for a median.
const ROUNDS_BETWEEN: u32 = 3;

const SIZES: [u16; 6] = [64, 1518, 128, 256, 512, 1024];

/// Measures `tautline switch` beside DPDK's testpmd, OVS-DPDK and the kernel's bridge on this machine. Needs
/// root, DPDK with its virtio and vhost drivers, and two CPUs that do nothing else.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,

    /// Two ring paths, two sizes: within 5 minutes. All otherwise, within 25.
    #[arg(long)]
    quick: bool,

    /// The switch that is measured, built for release.
    #[arg(long, value_name = "FILE")]
    tautline: Option<PathBuf>,

    /// Only these ring paths.
    #[arg(long, value_delimiter = ',', value_name = "PATH,…")]
    paths: Vec<RingPath>,

    /// Only these frame sizes, in bytes with frame check sequence, as RFC 2544 counts them.
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…")]
    sizes: Vec<u16>,

    /// Only these ways of the frames.
    #[arg(long, value_delimiter = ',', value_name = "WAY,…")]
    topologies: Vec<Topology>,

    /// Turns of each system in each cell; six or more for intervals. Three at sizes between the smallest and the
    /// largest, unless --sizes names them.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Length of a trial, ms.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(50..))]
    trial_ms: u64,

    /// Length of a trial of the search for zero loss, ms.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u64).range(20..))]
    search_trial_ms: u64,

    /// Entries of the rings in the search for zero loss. One of 256, with which all else is measured, holds 13
    /// µs at 20 Mpps: less than a shared machine pauses.
    #[arg(long, default_value_t = 1024, value_name = "ENTRIES")]
    search_ring: u16,

    /// Take the memory of all drivers and of DPDK's switches from the system's huge pages of 2 MiB, as DPDK is
    /// meant to run; it is faster so, at either end of the rings. What the pool lacks is added to it for the run.
    #[arg(long)]
    huge_pages: bool,

    /// Leave out Open vSwitch.
    #[arg(long)]
    no_ovs: bool,

    /// Leave out the kernel's bridge.
    #[arg(long)]
    no_bridge: bool,

    /// Measure the kernel's bridge alone, and nothing that has rings: under a minute.
    #[arg(long, conflicts_with_all = ["no_bridge", "hold", "paths", "topologies"])]
    only_bridge: bool,

    /// Leave out what our own generator measures: payloads touched, zero loss.
    #[arg(long)]
    no_generator: bool,

    /// Take trials as they come, on a machine that is busy: shows that it works, and nothing else.
    #[arg(long)]
    accept_noise: bool,

    /// No trial begins after so many minutes [default: 4.5 with --quick, 24 without].
    #[arg(long)]
    minutes: Option<f64>,

    /// Measure nothing: keep this one system at work, for a profiler, in the first cell that the other
    /// options name.
    #[arg(long, value_name = "SYSTEM")]
    hold: Option<System>,

    /// Where the results go.
    #[arg(long, value_name = "FOLDER", default_value = "bench-results")]
    results: PathBuf,
}

#[derive(Subcommand)]
enum Part {
    /// A port without a switch; started by this program itself.
    #[command(hide = true)]
    Endpoint { socket: PathBuf, cpu: usize },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.part {
        Some(Part::Endpoint { socket, cpu }) => endpoint::run(socket, *cpu),
        None => run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peers: {error:#}");
            if error.is::<Interrupted>() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let begin = Instant::now();
    let interrupt = Interrupt::catch().context("catching signals")?;
    let (driver_cpu, switch_cpu) = cpus::pick()?;
    let _grown = arguments
        .huge_pages
        .then(|| pages::Grown::by(HUGE_PAGES_MIB.saturating_sub(pages::free_mib())))
        .transpose()
        .with_context(|| format!("--huge-pages takes {HUGE_PAGES_MIB} MiB of them"))?;
    let order = order(arguments, begin)?;
    let now = OffsetDateTime::now_utc();
    let started = now.format(&Rfc3339).context("the time")?;
    let folder = arguments.results.join(started.replace(':', ""));
    let program = program(arguments)?;
    let place = Place { program, driver_cpu, switch_cpu, file: folder.join("results.json"), interrupt };
    let plan = Plan {
        quick: arguments.quick,
        rounds: order.rounds,
        trial_ms: arguments.trial_ms,
        search_trial_ms: order.search_trial.as_millis() as u64,
        search_ring: order.search_ring,
        driver_cpu,
        switch_cpu,
        limit_s: order.deadline.saturating_duration_since(begin).as_secs(),
        noise_limits: order.noise_limits,
        huge_pages: arguments.huge_pages,
    };
    let mut results = Results::new(started, HostFacts::gather(), versions(&place.program), plan);
    let progress = progress::Progress::new(order.steps());
    if let Some(system) = arguments.hold {
        return Bench::new(&order, &place, &mut results, &progress)?.hold(system);
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let done = measure_all(&order, &place, &mut results, &progress);
    progress.clear();
    let interrupted = place.interrupt.is_there();
    // What there is, is kept and shown, whatever came between.
    results.save(&place.file)?;
    let terminal = table::terminal(&results);
    std::fs::write(folder.join("table.txt"), &terminal)?;
    std::fs::write(folder.join("table.md"), table::markdown(&results))?;
    print!("{terminal}");
    println!(
        "{:.0} s; raw data and a table in Markdown: {}",
        begin.elapsed().as_secs_f64(),
        folder.display()
    );
    // A signal from the terminal ends the peers too, so what they then say is not the reason.
    if interrupted { Err(Interrupted.into()) } else { done }
}

fn measure_all(
    order: &Order,
    place: &Place,
    results: &mut Results,
    progress: &progress::Progress,
) -> anyhow::Result<()> {
    Bench::new(order, place, results, progress)?.run()
}

fn order(arguments: &Arguments, begin: Instant) -> anyhow::Result<Order> {
    let quick = arguments.quick;
    let chosen = |given: &[u16], quick_ones: &[u16], all: &[u16]| -> Vec<u16> {
        match (given.is_empty(), quick) {
            (false, _) => given.to_vec(),
            (true, true) => quick_ones.to_vec(),
            (true, false) => all.to_vec(),
        }
    };
    let sizes = chosen(&arguments.sizes, &[64, 1518], &SIZES);
    ensure!(
        sizes.iter().all(|size| (64..=1518).contains(size)),
        "--sizes: frames of 64 to 1518 bytes are measured"
    );
    let paths = match (arguments.paths.is_empty(), quick) {
        _ if arguments.only_bridge => Vec::new(),
        (false, _) => arguments.paths.clone(),
        (true, true) => vec![RingPath::Split, RingPath::PackedInOrder],
        (true, false) => RingPath::ALL.to_vec(),
    };
    let all = arguments.topologies.is_empty();
    let minutes = arguments.minutes.unwrap_or(if quick { 4.5 } else { 24.0 });
    ensure!(minutes.is_finite() && minutes > 0.0, "--minutes: write a number above 0");
    let ends = |size: &u16| cell::has_goals(*size);
    Ok(Order {
        paths,
        learning_sizes: sizes.iter().copied().filter(ends).collect(),
        bridge_sizes: match all || arguments.topologies.contains(&Topology::Vm2vm) {
            true if !arguments.no_bridge => sizes.iter().copied().filter(ends).collect(),
            _ => Vec::new(),
        },
        ovs: !arguments.no_ovs,
        generator_sizes: match arguments.no_generator {
            true => Vec::new(),
            false => sizes.iter().copied().filter(ends).collect(),
        },
        sizes,
        topologies: if all { Topology::ALL.to_vec() } else { arguments.topologies.clone() },
        rounds: arguments.rounds,
        // Whoever names sizes wants them.
        rounds_between: if arguments.sizes.is_empty() {
            arguments.rounds.min(ROUNDS_BETWEEN)
        } else {
            arguments.rounds
        },
        trial: Duration::from_millis(arguments.trial_ms),
        search_trial: Duration::from_millis(arguments.search_trial_ms),
        search_ring: arguments.search_ring,
        noise_limits: !arguments.accept_noise,
        pages: if arguments.huge_pages { Pages::Huge } else { Pages::Small },
        begin,
        deadline: begin + Duration::from_secs_f64(minutes * 60.0),
    })
}

/// The switch that was built beside this program, unless another is named.
fn program(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("tautline"));
    let program = arguments.tautline.clone().or_else(beside).context("finding this program")?;
    ensure!(
        program.is_file(),
        "{} is not there: build it with `cargo build --release -p tautline`, or name it with --tautline",
        program.display()
    );
    Ok(program)
}

/// What each program says of itself.
fn versions(program: &Path) -> Vec<String> {
    let said = |command: &mut Command, sign: &str| -> Option<String> {
        let output = command.output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find_map(|line| line.split_once(sign))?.1;
        Some(line.trim_end_matches('\'').to_owned())
    };
    let folder = tempfile::tempdir().ok();
    // It says its version only where it starts, and ends after its help.
    let mut testpmd = Command::new("dpdk-testpmd");
    testpmd.args(["-v", "--no-huge", "--no-pci", "--no-shconf", "-m", "64", "--", "--help"]);
    testpmd.env("RUNTIME_DIRECTORY", folder.as_ref().map_or(Path::new("/tmp"), |folder| folder.path()));
    [
        said(Command::new(program).arg("--version"), "tautline ")
            .map(|version| format!("tautline {version}")),
        said(&mut testpmd, "RTE Version: '"),
        peers::ovs::version()
            .map(|version| version.replace("ovs-vswitchd-dpdk (Open vSwitch)", "Open vSwitch")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{SEARCHING, STARTING};

    fn bridge_sizes(words: &str) -> Vec<u16> {
        let arguments = Arguments::parse_from(std::iter::once("bench-peers").chain(words.split_whitespace()));
        order(&arguments, Instant::now()).unwrap().bridge_sizes
    }

    #[test]
    fn the_bridge_is_measured_with_the_smallest_and_the_largest_frames_between_two_ports() {
        assert_eq!(bridge_sizes(""), [64, 1518]);
        assert_eq!(bridge_sizes("--quick --topologies loop,vm2vm --sizes 256,64"), [64]);
        assert_eq!(bridge_sizes("--only-bridge"), [64, 1518]);
        assert!(bridge_sizes("--topologies loop").is_empty());
        assert!(bridge_sizes("--no-bridge").is_empty());
    }

    #[test]
    fn a_whole_run_is_counted_in_trials() {
        let work = |words: &[&str]| {
            let words = ["bench-peers"].iter().chain(words);
            order(&Arguments::parse_from(words), Instant::now()).unwrap().work()
        };
        // Three ways with two systems, one with five: two of them at sizes between.
        let (ends, between) = (2 * 8 * (3 * 2 + 5), 4 * 3 * (3 * 2 + 2));
        let generator = 2 * (8 * (3 + 2) + (2 + 2) * SEARCHING);
        // Six paths with our generator, and two vectorised ones without; of split vectorised, two sizes.
        let bridge = 2 * (8 + 8 + SEARCHING);
        assert_eq!(work(&[]), 8 * (STARTING + ends) + 7 * between + 6 * generator + bridge);
        assert_eq!(work(&["--quick"]), 2 * (STARTING + ends + generator) + bridge);
        let one = ["--no-generator", "--paths", "split", "--topologies", "loop", "--sizes", "256"];
        assert_eq!(work(&one), STARTING + 8 * 2);
    }
}
