//! What the user may write.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Virtual I/O with no slack, and the proof.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What this machine can do; every capability proved by using it.
    Doctor(Doctor),
    /// Measure the same work on the host, in a container and in a VM, side by side.
    Compare(Compare),
    /// Redraw a results file; with two, compare two runs or two machines.
    Report(Report),
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub struct Compare {
    /// About two minutes: fewer metrics, shorter trials. Labelled so in every output.
    #[arg(long)]
    pub quick: bool,

    /// Only these groups (cpu, memory, os, wakeup, external) or metrics that begin so (os.pipe).
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Where to measure; the first is what the others are compared to. Options follow a colon, as in
    /// container:cpus=0.5 or vm:accel=tcg.
    #[arg(long, value_name = "LIST", default_value = "host,container,vm")]
    pub environments: String,

    /// The CPUs to work on [default: all that this process may use].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<String>,

    /// Starts of every environment; from 6 on there are 95 % intervals [default: 6 quick, 10 otherwise].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: Option<u32>,

    /// Rounds over all metrics in each start [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,

    /// Time for each trial, ms [default: 20 quick, 100 otherwise].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub trial_ms: Option<u64>,

    /// Time for each wake-up trial, ms [default: 200 quick, 2000 otherwise].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=86_400_000))]
    pub wakeup_ms: Option<u64>,

    /// Seconds beyond its trial that an agent may take to answer before it is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub patience: u64,

    /// Write the results with all raw samples to FILE.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a page with plots to FILE.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Limits on figures or ratios; exit code 3 where one is missed.
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,

    /// Programs of yours to run as workloads.
    #[arg(long, value_name = "FILE")]
    pub external: Option<PathBuf>,

    /// Run cyclictest on the host in alternation with the wake-up work, and show both.
    #[arg(long)]
    pub cross_check: bool,

    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Arguments of `report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Files that `compare --json` wrote; the second is compared to the first.
    #[arg(required = true, num_args = 1..=2, value_name = "FILE.json")]
    pub files: Vec<PathBuf>,

    /// Write a page with plots to FILE.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Limits on figures or ratios; exit code 3 where one is missed.
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,
}
