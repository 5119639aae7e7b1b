//! What the user may write after `scenario`.

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

    /// Print the scenarios that come with the program, as files to be changed, and end.
    #[arg(long)]
    pub list: bool,

    /// Where the members that move run, as in compare; the others are on the host.
    #[arg(long, value_name = "LIST", default_value = "host,container")]
    pub environments: String,

    /// One trial with so many users, and exit code 3 if a tick is missed, instead of a search for how many fit.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub users: Option<u32>,

    /// Cells [default: the file's].
    #[arg(long, value_name = "N")]
    pub cells: Option<u32>,

    /// Bytes of each user's packet in each tick [default: the file's].
    #[arg(long, value_name = "N")]
    pub bytes: Option<u32>,

    /// Threads that share a member's work on users [default: the file's].
    #[arg(long, value_name = "N")]
    pub workers: Option<u32>,

    /// By when after it was due a tick's work must be done [default: the file's].
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_micros(1)..=Duration::from_secs(10)))]
    pub deadline: Option<Duration>,

    /// Length of each trial.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// How many searches for each environment, taking turns.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,

    /// So many of a thousand ticks may be missed, and users still fit.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub missed_per_thousand: u32,

    /// The search ends when what fits is known within so many percent.
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub within: u32,

    /// CPUs that the members and the switch may use [default: all that may be used].
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<String>,

    /// A SCHED_FIFO priority for the members [default: the ordinary policy].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=98))]
    pub priority: Option<u8>,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
