//! What the user may write after `kvm`.

use std::time::Duration;

use clap::{Args, Subcommand};
use kvm::costs::MOST_SAMPLES;

use super::{EXIT_CODES, ResultsTo};
use crate::duration;

/// Arguments of `kvm`.
#[derive(Args, Debug)]
pub struct Kvm {
    /// What to do.
    #[command(subcommand)]
    pub command: KvmCommand,
}

/// The commands of `kvm`.
#[derive(Debug, Subcommand)]
pub enum KvmCommand {
    /// Unit costs as distributions: exits, interrupts, wake-ups, faults. Needs no guest: it brings a tiny one.
    Costs(KvmCosts),
    /// The exits of a running guest, counted and timed in the kernel by reason and virtual CPU.
    Trace(KvmTrace),
}

/// Arguments of `kvm costs`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct KvmCosts {
    /// Samples for each row.
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(10..=MOST_SAMPLES as i64))]
    pub samples: u32,

    /// Two CPUs: for a virtual CPU, and for the other or who signals [default: the first two that may be used].
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<String>,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}

/// Arguments of `kvm trace`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
#[command(group = clap::ArgGroup::new("guest").required(true).args(["pid", "domain"]))]
pub struct KvmTrace {
    /// The process that runs the guest: QEMU's, or any other's with /dev/kvm open.
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// The guest's name: a libvirt domain, or QEMU's -name.
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,

    /// How long to count, at most; until the process ends or SIGINT, if that is earlier.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
