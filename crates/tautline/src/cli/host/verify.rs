//! The command line of `tautline host verify`.

use std::path::PathBuf;
use std::time::Duration;

use ::host::journal;
use clap::Args;

use super::super::{EXIT_CODES, Limits, ResultsTo};
use super::Subject;
use linux::duration;

/// Arguments of `verify`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct Verify {
    /// The host, and the profile that it is checked against.
    #[command(flatten)]
    pub subject: Subject,

    /// The rules to verify, by the names that the plan shows [default: all that can be changed at run time].
    #[arg(long, value_name = "RULE,…", value_delimiter = ',')]
    pub rules: Vec<String>,

    /// Verify this rule too, although its change can cut a connection or stall a CPU.
    #[arg(long, value_name = "RULE")]
    pub accept: Vec<String>,

    /// Also measure the effect of each rule: all rules but one against all rules, in turns.
    #[arg(long)]
    pub ablate: bool,

    /// How long each state of the host is measured, summed over all blocks.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::between(Duration::from_millis(100)..=Duration::from_secs(86_400)))]
    pub time: Duration,

    /// How often every state is set up afresh; 6 or more give intervals.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub blocks: u32,

    /// The file in which the values found are kept for undo.
    #[arg(long, value_name = "FILE", default_value = journal::PLACE)]
    pub journal: PathBuf,

    /// Limits on figures or ratios.
    #[command(flatten)]
    pub limits: Limits,

    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,
}
