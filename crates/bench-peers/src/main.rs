//! `make bench-peers`: compares this project's switch with DPDK's testpmd, Open vSwitch and the kernel's bridge on
//! this machine, with the same drivers at the other end. docs/benchmarks.md explains the columns.
#![forbid(unsafe_code)]

mod cell;
mod figures;
mod gate;
mod goals;
mod machine;
mod memory;
mod ovn_flows;
mod plan;
mod render;
mod results;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};
use linux::interrupt::{self, Interrupted};
use linux::progress::{Detail, Progress};
use peers::build::Program;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use gate::Gate;
use machine::Machine;
use memory::Wanted;
use plan::RunPlan;
use results::Results;

/// Measures `tautline switch` beside DPDK's testpmd, OVS-DPDK and the kernel's bridge on this machine. Needs
/// root, DPDK with its virtio and vhost drivers, and two CPUs that do nothing else.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,

    #[command(flatten)]
    plan: RunPlan,

    /// The kind of memory pages at both ends of the rings: huge pages of 2 MiB, which DPDK is designed for, small
    /// pages of 4 KiB, or first one and then the other, which takes twice the time. Huge pages that are missing in
    /// the system's pool are added for the run; if they cannot be added, small pages are used, and the tables say so.
    #[arg(long, value_enum, default_value_t = Wanted::Huge)]
    pages: Wanted,

    /// The switch that is measured, built for release [default: the one beside this program].
    #[arg(long, value_name = "FILE")]
    tautline: Option<PathBuf>,

    /// The results file to write.
    #[arg(long, value_name = "FOLDER", default_value = "bench-results")]
    results: PathBuf,

    /// The file of limits on the figures; the exit code is 3 if a figure misses a limit. This project's limits are in
    /// crates/bench-peers/gate.toml.
    #[arg(long, value_name = "FILE", global = true)]
    gate: Option<PathBuf>,

    /// Write the tables of the smallest and the largest frames to this file; if the path is a folder, to a file in it
    /// whose name is the day and the machine.
    #[arg(long, value_name = "FILE", global = true)]
    markdown: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Part {
    /// Print the tables of results files again, and judge them by --gate.
    Render {
        #[arg(required = true, value_name = "FILE.json")]
        files: Vec<PathBuf>,
    },
    /// Compare the runs of `make bench-flows` in results files with the goals in a file.
    Goals {
        goals: PathBuf,
        #[arg(required = true, value_name = "FILE.json")]
        files: Vec<PathBuf>,
    },
    /// Write the flows that OVN gives a chassis.
    OvnFlows {
        file: PathBuf,
        /// The number of virtual machines, at most 250.
        #[arg(long, default_value_t = 200)]
        ports: u16,
        /// UDP passes without connection tracking.
        #[arg(long)]
        stateless: bool,
    },
    /// A port without a switch; this program itself starts it.
    #[command(hide = true)]
    Endpoint { socket: PathBuf, cpu: usize },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.part {
        Some(Part::Endpoint { socket, cpu }) => {
            traffic::endpoint::run(socket, *cpu).map(|()| true).context("the port")
        }
        Some(Part::Render { files }) => load(files).and_then(|runs| show(&arguments, &runs)),
        Some(Part::Goals { goals, files }) => {
            let table = load(files).and_then(|runs| goals::table(goals, &runs));
            table.map(|table| print!("{table}")).map(|()| true)
        }
        Some(Part::OvnFlows { file, ports, stateless }) => {
            ovn_flows::write(file, *ports, *stateless).map(|()| true)
        }
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

fn load(files: &[PathBuf]) -> anyhow::Result<Vec<Results>> {
    Ok(files.iter().map(|file| Results::load(file)).collect::<Result<_, _>>()?)
}

/// Measures, and shows the results so far also after an error. Returns whether all limits of the gate were held.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    // Mistakes in the gate are reported before anything is measured.
    arguments.gate.as_deref().map(Gate::read).transpose()?;
    interrupt::catch().context("catching signals")?;
    let tautline = match &arguments.tautline {
        Some(program) => program.clone(),
        None => std::env::current_exe().context("finding this program")?.with_file_name("tautline"),
    };
    let shown = tautline.display();
    ensure!(
        tautline.is_file(),
        "there is no {shown}; build it (make release), or name another with --tautline"
    );
    let mut machine = Machine::pick()?;
    let now = OffsetDateTime::now_utc().format(&Rfc3339).context("the time")?;
    let folder = arguments.results.join(now.replace(':', ""));
    let (mut runs, mut done) = (Vec::new(), Ok(()));
    let (memory, why_small, _grown) = memory::have(arguments.pages);
    for huge_pages in memory {
        let mut plan = arguments.plan.clone().complete();
        (plan.driver_cpu, plan.switch_cpu) = (machine.driver_cpu, machine.switch_cpu);
        (plan.huge_pages, plan.no_huge_pages) = (huge_pages, why_small.clone());
        // The bridge uses no huge pages.
        plan.no_bridge |= !runs.is_empty();
        let file = folder.join(if plan.huge_pages { "results-huge.json" } else { "results-small.json" });
        let mut results = Results::new(now.clone(), programs(&tautline, &plan)?, plan);
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let progress = Progress::start(Detail::Normal);
        done = run::run(&tautline, &mut machine, &mut results, &file, &progress);
        progress.finish();
        measure::save_json(&results, &file)?;
        println!("Results: {} ({:.0} s)\n", file.display(), results.elapsed_s);
        runs.push(results);
        if done.is_err() || interrupt::is_set() {
            break;
        }
    }
    let held = show(arguments, &runs)?;
    // A signal from the terminal also ends the peers, so their messages are then not the reason.
    interrupt::check()?;
    done.map(|()| held)
}

/// All programs that a run starts. One that does not answer is an error where the user named it, and otherwise none:
/// the run will say why.
fn programs(tautline: &Path, plan: &RunPlan) -> anyhow::Result<Vec<Program>> {
    let [device, driver] = [(render::DEVICE, &plan.testpmd), (render::DRIVER, &plan.testpmd_driver)]
        .map(|(name, file)| (Program::testpmd(name, file.as_deref()), file.is_some()));
    let own = (Program::own("tautline: switch and generator", tautline), true);
    let ovs = (!plan.no_ovs).then(|| (Program::ovs(plan.ovs.as_deref()), plan.ovs.is_some()));
    let all = [own, device, driver].into_iter().chain(ovs);
    let all = all.filter(|(program, named)| program.is_ok() || *named).map(|(program, _)| program);
    Ok(all.collect::<Result<_, _>>()?)
}

/// Draws and judges. Whether all limits of the gate were held.
fn show(arguments: &Arguments, runs: &[Results]) -> anyhow::Result<bool> {
    let all = |all_sizes| runs.iter().map(|run| render::page(run, all_sizes)).collect::<Vec<_>>().join("\n");
    print!("{}", all(true));
    if let (Some(path), [first, ..]) = (&arguments.markdown, runs) {
        let file = page_file(path, first);
        std::fs::write(&file, all(false)).with_context(|| format!("writing {}", file.display()))?;
    }
    let Some(gate) = arguments.gate.as_deref().map(Gate::read).transpose()? else { return Ok(true) };
    let judged: Vec<_> = runs.iter().map(|run| gate.judge(run)).collect();
    for (missed, summary) in &judged {
        println!("{summary}");
        missed.iter().for_each(|line| println!("{line}"));
    }
    Ok(judged.iter().all(|(missed, _)| missed.is_empty()))
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
