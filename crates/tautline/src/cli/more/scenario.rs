//! The command line of `scenario`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{EXIT_CODES, ResultsTo};
use linux::duration;

/// Arguments of `scenario`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Scenario {
    /// base-station, control-loop, or a file that describes one.
    #[arg(value_name = "NAME|FILE", required_unless_present = "list")]
    pub scenario: Option<PathBuf>,

    /// Print the built-in scenarios as files to be changed, and end.
    #[arg(long)]
    pub list: bool,

    /// The environments of the members that the scenario does not keep on the host, as in compare.
    #[arg(long, value_name = "LIST", default_value = "host,container")]
    pub environments: String,

    /// Run one trial with this many users, in place of a search for how many fit. Exit code 3 if a tick is missed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub users: Option<u32>,

    /// The number of cells [default: the file's].
    #[arg(long, value_name = "N")]
    pub cells: Option<u32>,

    /// Bytes of each user's packet in each tick [default: the file's].
    #[arg(long, value_name = "N")]
    pub bytes: Option<u32>,

    /// Threads that share a member's work on users [default: the file's].
    #[arg(long, value_name = "N")]
    pub workers: Option<u32>,

    /// The time after a tick is due by which its work must be done [default: the file's].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_micros(1)..=Duration::from_secs(10)))]
    pub deadline: Option<Duration>,

    /// Length of each trial.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// The number of searches for each environment. Environments take turns.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,

    /// How many of a thousand ticks may be missed while the users still count as served.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub missed_per_thousand: u32,

    /// The search ends when the number of users is known within this many percent.
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub within: u32,

    /// CPUs that the members and the switch may use [default: all that this process may use].
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<String>,

    /// A SCHED_FIFO priority for the members [default: the ordinary policy].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=98))]
    pub priority: Option<u8>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
