//! The command line of `torture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{EXIT_CODES, ResultsTo};
use linux::duration;

/// Arguments of `torture`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Torture {
    /// The back-end: vhost-user:PATH of the socket where it listens.
    #[arg(value_name = "vhost-user:PATH")]
    pub target: String,

    /// Only these kinds of cases: order, bytes, descriptors, memory, split-ring, packed-ring, shrink, withdraw,
    /// eventfd, slow; for a crypto device also crypto-session, crypto-request.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Cases of each kind.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    pub cases: u64,

    /// Run all kinds in turns instead, until the back-end has seen this many hostile messages and states of rings.
    #[arg(long, value_name = "N", conflicts_with_all = ["cases", "time"], value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// The number of the first case. With --cases 1, this repeats one case of an earlier run.
    #[arg(long, value_name = "N", default_value = "0")]
    pub first: u64,

    /// The longest time for each kind.
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(7 * 86_400)))]
    pub time: Option<Duration>,

    /// The seed from which all cases are made.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// After this many cases the back-end must serve a correct front-end.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u64).range(1..))]
    pub check_every: u64,

    /// How long the back-end may take to serve that front-end.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(600)))]
    pub timeout: Duration,

    /// Start the back-end by this command, through sh, and start it again if it has ended or does not answer.
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,

    /// Two more sockets of the same switch. During all cases frames pass between them, and each lost or changed frame
    /// is counted. Or one more socket of the same crypto devices: requests are then sent there during all cases, and
    /// their results are checked.
    #[arg(long, value_name = "PATH[,PATH]", value_delimiter = ',')]
    pub beside: Vec<PathBuf>,

    /// Frames a second each way between the sockets of --beside.
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=10_000_000), requires = "beside")]
    pub beside_rate: u32,

    /// After each time of this length, send no hostile message for a quarter of it. The rate of --beside is
    /// compared with and without hostile messages.
    #[arg(long, value_name = "DURATION", requires = "beside", value_parser = duration::between(Duration::from_millis(100)..=Duration::from_secs(3600)))]
    pub turn: Option<Duration>,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
