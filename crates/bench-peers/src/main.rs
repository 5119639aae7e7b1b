//! `make bench-peers`: our switch beside DPDK's testpmd, Open vSwitch and the kernel's bridge on this machine,
//! with the same drivers at the other end. docs/benchmarks.md says what the columns mean.
#![forbid(unsafe_code)]

mod bench;
mod cell;
mod child;
mod cpus;
mod device;
mod driver;
mod endpoint;
mod gate;
mod generator;
mod interrupt;
mod kernel_bridge;
mod latency_class;
mod memory;
mod order;
mod overview;
mod own;
mod programs;
mod progress;
mod records;
mod rounds;
mod siblings;
mod summary;
mod table;
mod transfer_limit;
mod usage;
mod window;
mod zero_loss;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use measure::host_facts::HostFacts;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use bench::{Bench, Place};
use cell::{RingPath, System, Topology};
use gate::Gate;
use interrupt::{Interrupt, Interrupted};
use memory::Wanted;
use order::{Order, Setup};
use records::{Plan, Results};

/// How long something that was started may take to come up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Rounds at sizes between the smallest and the largest: enough for a median.
const ROUNDS_BETWEEN: u32 = 3;

/// Starts of the systems of each ring path: the least that shows what another start changes.
const STARTS: u32 = 2;

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

    /// What the memory at both ends of the rings is made of: of the driver, of our generator, of DPDK's device and of
    /// Open vSwitch. Huge pages of 2 MiB, as DPDK is meant to run, small ones of 4 KiB, or first one and then the
    /// other, which takes twice the time. What the system's pool of huge pages lacks is added to it for the run;
    /// where they cannot be had, small ones are measured, and the tables say so.
    #[arg(long, value_enum, default_value_t = Wanted::Huge)]
    pages: Wanted,

    /// testpmd as the device: this build of it. The installed one otherwise.
    #[arg(long, value_name = "PATH")]
    testpmd: Option<PathBuf>,

    /// testpmd as the driver: this build of it. The installed one otherwise.
    #[arg(long, value_name = "PATH")]
    testpmd_driver: Option<PathBuf>,

    /// Open vSwitch with DPDK: the build in this folder, where it was built, installed or unpacked to.
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_ovs")]
    ovs: Option<PathBuf>,

    /// Limits on the figures; exit code 3 where one is missed. This project's are in crates/bench-peers/gate.toml.
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,

    /// Write the tables of the smallest and the largest frames into this file, or into one named by day and machine
    /// in this folder.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// The switch that is measured, built for release.
    #[arg(long, value_name = "FILE")]
    tautline: Option<PathBuf>,

    /// Only these ring paths.
    #[arg(long, value_delimiter = ',', value_name = "PATH,…")]
    paths: Vec<RingPath>,

    /// Only these frame sizes, in bytes with frame check sequence, as RFC 2544 counts them.
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…")]
    sizes: Vec<u16>,

    /// Only these topologies.
    #[arg(long, value_delimiter = ',', value_name = "TOPOLOGY,…")]
    topologies: Vec<Topology>,

    /// Turns of each system in each cell, spread over two starts of the systems; six or more for intervals. Three at
    /// sizes between the smallest and the largest, unless --sizes names them.
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
        Some(Part::Endpoint { socket, cpu }) => endpoint::run(socket, *cpu).map(|()| true),
        None => run(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("bench-peers: {error:#}");
            if error.is::<Interrupted>() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether all limits of the gate were held.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let gate = arguments.gate.as_deref().map(Gate::read).transpose()?;
    let interrupt = Interrupt::catch().context("catching signals")?;
    let (driver_cpu, switch_cpu) = cpus::pick()?;
    let now = OffsetDateTime::now_utc().format(&Rfc3339).context("the time")?;
    let folder = arguments.results.join(now.replace(':', ""));
    let mut place =
        Place { program: program(arguments)?, driver_cpu, switch_cpu, file: PathBuf::new(), interrupt };
    let (mut runs, mut done) = (Vec::new(), Ok(()));
    for memory in memory::have(arguments.pages) {
        place.file = folder.join(format!("results-{}.json", memory.name()));
        let (results, run_done) = measure_with(arguments, &place, &memory, runs.is_empty(), &now)?;
        runs.extend(results);
        done = run_done;
        if done.is_err() || place.interrupt.is_there() {
            break;
        }
    }
    if runs.is_empty() {
        return done.map(|()| true);
    }
    let all = |table: fn(&Results) -> String| runs.iter().map(table).collect::<Vec<_>>().join("\n");
    let (terminal, page) = (all(table::terminal), all(table::markdown));
    std::fs::write(folder.join("table.txt"), &terminal)?;
    std::fs::write(folder.join("table.md"), &page)?;
    print!("{terminal}");
    if let Some(file) = arguments.markdown.as_deref().map(|path| page_file(path, &runs[0])) {
        std::fs::write(&file, page).with_context(|| format!("writing {}", file.display()))?;
    }
    println!("Raw data and the tables, in Markdown too: {}", folder.display());
    let judged: Vec<gate::Judgement> =
        gate.iter().flat_map(|gate| runs.iter().map(|run| gate.judge(run))).collect();
    for judgement in &judged {
        println!("{}", judgement.summary);
        judgement.missed.iter().for_each(|line| println!("{line}"));
    }
    // A signal from the terminal ends the peers too, so what they then say is not the reason.
    place.interrupt.check()?;
    done.map(|()| judged.iter().all(|judgement| judgement.missed.is_empty()))
}

/// One run with this memory, and how it ended: what there is, is kept and shown, whatever came between. Nothing is
/// measured where a system is only held.
fn measure_with(
    arguments: &Arguments,
    place: &Place,
    memory: &memory::Memory,
    is_first: bool,
    now: &str,
) -> anyhow::Result<(Option<Results>, anyhow::Result<()>)> {
    let begin = Instant::now();
    let mut order = order(arguments, begin)?;
    order.setup.pages = memory.pages;
    if !is_first {
        // It knows no huge pages.
        order.bridge_sizes.clear();
    }
    let plan = Plan {
        quick: arguments.quick,
        rounds: order.rounds,
        starts: order.starts,
        trial_ms: arguments.trial_ms,
        search_trial_ms: order.search_trial.as_millis() as u64,
        search_ring: order.search_ring,
        driver_cpu: place.driver_cpu,
        switch_cpu: place.switch_cpu,
        limit_s: order.deadline.saturating_duration_since(begin).as_secs(),
        noise_limits: order.noise_limits,
        huge_pages: memory.pages == peers::Pages::Huge,
        no_huge_pages: memory.no_huge_pages.clone(),
    };
    let programs = programs::all(&place.program, &order.setup, order.ovs)?;
    let mut results = Results::new(now.to_owned(), HostFacts::gather(), programs, plan);
    let progress = progress::Progress::new(order.steps());
    if let Some(system) = arguments.hold {
        return Ok((None, Bench::new(&order, place, &mut results, &progress)?.hold(system)));
    }
    let folder = place.file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let done = measure_all(&order, place, &mut results, &progress);
    progress.clear();
    results.save(&place.file)?;
    eprintln!("{}: {:.0} s", memory.name(), begin.elapsed().as_secs_f64());
    Ok((Some(results), done))
}

/// In a folder the file has the day and the machine in its name.
fn page_file(path: &Path, results: &Results) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let words =
        results.host.cpu_model.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let machine = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    let day = results.started.split('T').next().unwrap_or_default();
    path.join(format!("{day}-{machine}-{}cpus.md", results.host.cpus_online))
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
    let ends = |size: &u16| cell::is_headline(*size);
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
        starts: arguments.rounds.min(STARTS),
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
        setup: Setup {
            testpmd: arguments.testpmd.clone(),
            testpmd_driver: arguments.testpmd_driver.clone(),
            ovs: arguments.ovs.clone(),
            ..Setup::default()
        },
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
        let starting = 2 * STARTING;
        assert_eq!(work(&[]), 8 * (starting + ends) + 7 * between + 6 * generator + bridge);
        assert_eq!(work(&["--quick"]), 2 * (starting + ends + generator) + bridge);
        let one = ["--no-generator", "--paths", "split", "--topologies", "loop", "--sizes", "256"];
        assert_eq!(work(&one), starting + 8 * 2);
    }

    #[test]
    fn rounds_are_spread_over_the_starts_and_each_has_its_own_number() {
        let order = |words: &[&str]| {
            order(&Arguments::parse_from(["bench-peers"].iter().chain(words)), Instant::now()).unwrap()
        };
        let whole = order(&[]);
        assert_eq!([0, 1].map(|start| whole.rounds_in(start, 64)), [0..4, 4..8]);
        assert_eq!([0, 1].map(|start| whole.rounds_in(start, 256)), [0..3, 0..0]);
        assert_eq!(whole.sizes_in(1, RingPath::Split), [64, 1518]);
        let named = order(&["--sizes", "256", "--rounds", "5"]);
        assert_eq!([0, 1].map(|start| named.rounds_in(start, 256)), [0..2, 2..5]);
        assert_eq!(order(&["--rounds", "1"]).starts, 1);
    }

    #[test]
    fn a_page_in_a_folder_is_named_by_day_and_machine() {
        let (folder, results) = (tempfile::tempdir().unwrap(), records::results_for_tests());
        let file = page_file(folder.path(), &results);
        assert_eq!(file, folder.path().join("2026-01-02-some-cpu-2cpus.md"));
        assert_eq!(page_file(&file, &results), file);
    }
}
