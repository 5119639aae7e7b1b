//! The command line of `kvm`.

use std::time::Duration;

use clap::{Args, Subcommand};
use kvm::costs::MOST_SAMPLES;

use super::{EXIT_CODES, ResultsTo};
use linux::duration;

/// Arguments of `kvm`.
#[derive(Args, Debug)]
pub struct Kvm {
    /// The subcommand to carry out.
    #[command(subcommand)]
    pub command: KvmCommand,
}

/// The commands of `kvm`.
#[derive(Debug, Subcommand)]
pub enum KvmCommand {
    /// Measure the unit costs of exits, interrupts, wake-ups and faults, as distributions. No guest is needed: the
    /// command starts a tiny one.
    Costs(KvmCosts),
    /// Count and time the exits of a running guest in the kernel, by reason and virtual CPU.
    Trace(KvmTrace),
    /// Show the steps of a packet or an interrupt: which thread ran where and for how long, beside the known steps
    /// of such a path.
    Path(KvmPath),
    /// Show the longest wake-up or interrupt of a guest's CPU beside the median, with what used the time.
    Worst(KvmWorst),
}

/// Arguments of `kvm costs`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct KvmCosts {
    /// Samples for each row.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(10..=MOST_SAMPLES as i64))]
    pub samples: u32,

    /// Two CPUs: the first for a virtual CPU, the second for the other virtual CPU or the thread that signals
    /// [default: the first two that may be used].
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<String>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `kvm trace`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
#[command(group = clap::ArgGroup::new("guest").required(true).args(["pid", "domain"]))]
pub struct KvmTrace {
    /// The process that runs the guest: QEMU, or any other process that has /dev/kvm open.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// The guest's name: a libvirt domain, or QEMU's -name.
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,

    /// The longest time to count. The command ends earlier at the end of the process or at SIGINT.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// Print the counts of each second, and the sum at the end.
    #[arg(long)]
    pub live: bool,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// The packets that `kvm path` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Followed {
    /// A packet to the guest.
    NetRx,
    /// A packet from the guest.
    NetTx,
    /// An interrupt, from its cause to the guest.
    Interrupt,
    /// A request to a block device, until the guest has the interrupt.
    Block,
}

/// Arguments of `kvm path`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct KvmPath {
    /// The path to follow. Something must use it during the trace.
    #[arg(value_enum)]
    pub followed: Followed,

    /// The process that runs the guest: QEMU, or any other process that has /dev/kvm open.
    #[arg(long, value_name = "PID")]
    pub pid: u32,

    /// The longest time to trace. SIGINT ends it earlier.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(60)))]
    pub time: Duration,

    /// Divide the median packet's time into transitions by their unit costs, copies, scheduling, and the rest.
    #[arg(long, requires = "costs")]
    pub explain: bool,

    /// Unit costs for --explain: a file of `kvm costs --output FILE.json`, of this machine.
    #[arg(long, value_name = "FILE")]
    pub costs: Option<std::path::PathBuf>,

    /// Length of a packet for --explain: its bytes are copied once.
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub bytes: u32,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// The latencies that `kvm worst` watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WatchedLatency {
    /// From a virtual CPU's wake-up to its guest's entry.
    WakeUp,
    /// From a pending interrupt to the guest's entry that delivers it.
    Interrupt,
    /// From a pending interrupt to the guest's thread that it wakes, in user space; needs --guest.
    UserSpace,
}

/// Arguments of `kvm worst`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct KvmWorst {
    /// The process that runs the guest: QEMU, or any other process that has /dev/kvm open.
    #[arg(long, value_name = "PID")]
    pub pid: u32,

    /// What is watched.
    #[arg(long, value_enum, value_name = "LATENCY", default_value = "wake-up")]
    pub watch: WatchedLatency,

    /// The longest time to watch. The command ends earlier at the end of the process or at SIGINT.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(7 * 86_400)))]
    pub time: Duration,

    /// Record in the guest too: the socket of QEMU's -chardev behind the serial port at which the guest runs
    /// `tautline agent`.
    #[arg(long, value_name = "SOCKET")]
    pub guest: Option<std::path::PathBuf>,

    /// A latency budget (TOML) with limits by stage. Exit code 3 if one is exceeded.
    #[arg(long, value_name = "FILE")]
    pub budget: Option<std::path::PathBuf>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
