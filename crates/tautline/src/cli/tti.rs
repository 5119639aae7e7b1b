//! The command line of `tti`.

use std::time::Duration;

use clap::Args;

use super::{EXIT_CODES, ResultsTo};
use linux::duration;

/// Arguments of `tti`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Tti {
    /// From one tick to the next: the transmission time interval.
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration::between(Duration::from_micros(50)..=Duration::from_secs(10)))]
    pub interval: Duration,

    /// The time after a tick is due by which it must be in user space. Exit code 3 if one is later [default: no
    /// limit; ticks later than 50us are counted].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_nanos(100)..=Duration::from_secs(10)))]
    pub budget: Option<Duration>,

    /// Length of the measurement, for each environment and load.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// Where the ticks are received, as in compare.
    #[arg(long, value_name = "LIST", default_value = "host,container")]
    pub environments: String,

    /// The load on the receiver's CPU, at normal priority: none, cpu, memory, io, network.
    #[arg(
        long,
        value_name = "LOAD,…",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true,
        default_value = "none,cpu,memory,io"
    )]
    pub load: Vec<Beside>,

    /// How the receiver learns of a tick: interrupt (an eventfd), poll (reads the shared memory all the time), or
    /// timer (a timer of the receiver, as in cyclictest).
    #[arg(long, value_name = "WAY", value_enum, hide_possible_values = true, default_value = "interrupt")]
    pub wait: Way,

    /// The CPU of the source and the CPU of the receiver [default: the first and the last that may be used].
    #[arg(long, value_name = "CPU,CPU")]
    pub cpus: Option<String>,

    /// How long before each instant the source stops sleeping and spins; with 0s it relies on the timer.
    #[arg(long, value_name = "DURATION", default_value = "50us", value_parser = duration::between(Duration::ZERO..=Duration::from_millis(10)))]
    pub spin: Duration,

    /// Divide the path into a guest into its stages, by traces of both kernels. Needs root, and adds some
    /// microseconds.
    #[arg(long)]
    pub stages: bool,

    /// Measure the effect of para-virtualized scheduling. The receiver shares its CPU with a second environment of
    /// the same kind, which computes. Three cases take turns: without the hints, with them, and the receiver
    /// alone. With the hints, the receiver tells the host when it runs and when the next tick is due, and the host
    /// raises its priority for that time.
    #[arg(long, conflicts_with = "stages")]
    pub pv_sched: bool,

    /// The number of turns; 6 or more give an interval.
    #[arg(long, value_name = "N", default_value = "6", requires = "pv_sched", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// CPU time of the work that the receiver does for each tick.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::between(Duration::ZERO..=Duration::from_secs(1)))]
    pub work: Duration,

    /// SCHED_FIFO priority of the receiver; 0 for the ordinary policy. The source has one more.
    #[arg(long, value_name = "N", default_value = "80", value_parser = clap::value_parser!(u8).range(0..=98))]
    pub priority: u8,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Load beside the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Beside {
    /// Nothing.
    None,
    /// Arithmetic in registers.
    Cpu,
    /// Copies between arrays beyond the caches.
    Memory,
    /// Writes, syncs and reads of a file in memory.
    Io,
    /// Datagrams over loopback.
    Network,
}

/// How the receiver learns of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// The receiver sleeps until the interrupt comes.
    Interrupt,
    /// The receiver reads the shared memory again and again.
    Poll,
    /// The receiver sleeps until the instant at which the tick is due.
    Timer,
}
