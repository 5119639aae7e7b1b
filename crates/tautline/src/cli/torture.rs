//! What the user may write after `torture`.

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

    /// Only these kinds of cases, of order, bytes, descriptors, memory, split-ring, packed-ring, shrink, eventfd, slow;
    /// of a crypto device also crypto-session, crypto-request.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    pub only: Vec<String>,

    /// Cases of each kind.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    pub cases: u64,

    /// All kinds in turns instead, until the back-end has seen so many hostile messages and states of rings.
    #[arg(long, value_name = "N", conflicts_with_all = ["cases", "time"], value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// The number of the first case: with --cases 1 one of an earlier run is made again.
    #[arg(long, value_name = "N", default_value = "0")]
    pub first: u64,

    /// No more time than this for each kind.
    #[arg(long, value_name = "DURATION", value_parser = duration::between(Duration::from_millis(1)..=Duration::from_secs(7 * 86_400)))]
    pub time: Option<Duration>,

    /// What the cases follow from.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// After so many cases the back-end must serve a front-end that does nothing wrong.
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u64).range(1..))]
    pub check_every: u64,

    /// How long it may take for that.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::between(Duration::from_millis(10)..=Duration::from_secs(600)))]
    pub timeout: Duration,

    /// Start the back-end by this command, through sh, and again whenever it is gone or silent.
    #[arg(long, value_name = "COMMAND")]
    pub command: Option<String>,

    /// Two more sockets of the same switch: frames go between them all along, and what becomes of them is counted. Or one
    /// more socket of the same crypto devices: requests are passed on all along, and their results are checked.
    #[arg(long, value_name = "PATH[,PATH]", value_delimiter = ',')]
    pub beside: Vec<PathBuf>,

    /// Of those frames so many a second each way.
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=10_000_000), requires = "beside")]
    pub beside_rate: u32,

    /// Rest after each such time for a quarter of it, so that their rate is compared with and without hostility.
    #[arg(long, value_name = "DURATION", requires = "beside", value_parser = duration::between(Duration::from_millis(100)..=Duration::from_secs(3600)))]
    pub turn: Option<Duration>,

    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
