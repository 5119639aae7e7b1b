//! The command line of `tautline host interrupts`.

use std::time::Duration;

use clap::Args;

use super::super::{EXIT_CODES, ResultsTo};
use linux::duration;

/// Arguments of `interrupts`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Interrupts {
    /// The process that runs the guest: QEMU, or any other process that has /dev/kvm open.
    #[arg(long, value_name = "PID")]
    pub pid: u32,

    /// A command that prints the guest's /proc/interrupts, run before and after, as in 'ssh guest cat /proc/interrupts'.
    #[arg(long, value_name = "COMMAND")]
    pub guest: String,

    /// How long to count.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(3600)))]
    pub time: Duration,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
