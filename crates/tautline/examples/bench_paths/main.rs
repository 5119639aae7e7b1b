//! `make bench-paths`: what a packet on each path into a guest takes, in exits, transitions and instructions. Counted in the
//! nested machine by its instruction-counting clock, in two boots, which must agree.

mod bed;
mod gate;
mod results;
mod window;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use peers::nested::NetworkPath;

use results::{Results, Row, Run, SCHEMA};

/// How often a run is tried if the emulated machine stands still.
const TRIES: usize = 4;

#[derive(Parser)]
#[command(about = "Counts exits, transitions and instructions per packet of each path into a guest")]
struct Arguments {
    /// The program `tautline`, which is the switch on one of the paths.
    program: PathBuf,
    /// Packets for each path and direction.
    #[arg(long, default_value_t = 100)]
    packets: u32,
    /// Which paths; all otherwise.
    #[arg(long, value_delimiter = ',', value_parser = path)]
    paths: Vec<NetworkPath>,
    /// How often the machine is booted.
    #[arg(long, default_value_t = 2)]
    runs: usize,
    /// Writes the counts here, as JSON.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Judges them by kept ones; exit code 3 where they are others.
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
}

fn path(name: &str) -> Result<NetworkPath, String> {
    let known = NetworkPath::ALL.map(NetworkPath::name).join(", ");
    NetworkPath::ALL.into_iter().find(|path| path.name() == name).ok_or(format!("known are {known}"))
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let kept = arguments.gate.as_deref().map(gate::read).transpose()?;
    let results = measure(&arguments)?;
    print!("{}", results::table(&results));
    if let Some(file) = &arguments.output {
        let text = serde_json::to_string_pretty(&results)? + "\n";
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        println!("\nKept in {}.", file.display());
    }
    let Some(kept) = kept else { return Ok(ExitCode::SUCCESS) };
    let missed = gate::judge(&results, &kept);
    missed.lines.iter().for_each(|line| println!("{line}"));
    Ok(if missed.is_met { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn measure(arguments: &Arguments) -> anyhow::Result<Results> {
    let started = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?;
    let paths = if arguments.paths.is_empty() { NetworkPath::ALL.to_vec() } else { arguments.paths.clone() };
    // The machines run one after the other: beside another one, an emulated machine stands still more often
    // (docs/nested.md).
    let one = |_| count(&arguments.program, &paths, arguments.packets);
    let runs = (0..arguments.runs.max(1)).map(one).collect::<anyhow::Result<Vec<_>>>()?;
    let keys = runs[0].counts.keys().cloned().collect::<Vec<_>>();
    let row = |(path, direction): (String, String)| {
        let runs = runs.iter().map(|run| run.counts[&(path.clone(), direction.clone())].clone()).collect();
        Row { path, direction, runs }
    };
    Ok(Results {
        schema: SCHEMA.into(),
        started,
        tautline: env!("CARGO_PKG_VERSION").into(),
        kernel: runs[0].kernel.clone(),
        qemu: runs[0].qemu.clone(),
        packets: arguments.packets,
        paths: keys.into_iter().map(row).collect(),
    })
}

/// A run; begun again, which is said, where it has come to nothing.
fn count(program: &Path, paths: &[NetworkPath], packets: u32) -> anyhow::Result<Run> {
    for _ in 1..TRIES {
        match bed::count(program, paths, packets) {
            Ok(run) => return Ok(run),
            Err(error) => eprintln!("Begun again: {error:#}"),
        }
    }
    bed::count(program, paths, packets)
}
