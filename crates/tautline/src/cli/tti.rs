//! What the user may write after `tti`.

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

    /// By when after it was due a tick must be in user space; exit code 3 where one is later [default: none is asked
    /// for; ticks later than 50us are counted].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_nanos(100)..=Duration::from_secs(10)))]
    pub budget: Option<Duration>,

    /// How long, for each environment and load.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// Where the ticks are received, as in compare.
    #[arg(long, value_name = "LIST", default_value = "host,container")]
    pub environments: String,

    /// What else goes on, on the receiver's CPU, at normal priority: none, cpu, memory, io, network.
    #[arg(
        long,
        value_name = "LOAD,…",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true,
        default_value = "none,cpu,memory,io"
    )]
    pub load: Vec<Beside>,

    /// How the receiver learns of a tick: interrupt (an eventfd), poll (the shared memory, all the time), or timer (that of
    /// its own CPU, as cyclictest).
    #[arg(long, value_name = "WAY", value_enum, hide_possible_values = true, default_value = "interrupt")]
    pub wait: Way,

    /// The CPU of the source and that of the receiver [default: the first and the last that may be used].
    #[arg(long, value_name = "CPU,CPU")]
    pub cpus: Option<String>,

    /// How long before each instant the source stops sleeping and spins; 0s for a timer alone.
    #[arg(long, value_name = "DURATION", default_value = "50us", value_parser = duration::between(Duration::ZERO..=Duration::from_millis(10)))]
    pub spin: Duration,

    /// Split the way into a guest into its stages, by traces of both kernels, as root; they add some microseconds.
    #[arg(long)]
    pub stages: bool,

    /// Measure what para-virtualized scheduling gives: the receiver on a CPU that it shares with a second environment of
    /// the same kind, which computes: without, with, and alone. The receiver tells the host when it runs and when the
    /// next tick is due, and the host raises it for that long.
    #[arg(long, conflicts_with = "stages")]
    pub pv_sched: bool,

    /// How many turns of without, with and alone; six or more give an interval.
    #[arg(long, value_name = "N", default_value = "6", requires = "pv_sched", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,

    /// CPU time of the work that the receiver does for each tick.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::between(Duration::ZERO..=Duration::from_secs(1)))]
    pub work: Duration,

    /// SCHED_FIFO priority of the receiver, 0 for the ordinary policy; the source's is one more.
    #[arg(long, value_name = "N", default_value = "80", value_parser = clap::value_parser!(u8).range(0..=98))]
    pub priority: u8,

    /// Where results go.
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
    /// It sleeps until the interrupt comes.
    Interrupt,
    /// It reads the shared memory again and again.
    Poll,
    /// It sleeps until the instant at which the tick is due.
    Timer,
}
