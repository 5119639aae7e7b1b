//! What commands that print results have in common.

use std::path::PathBuf;

use clap::Args;
use report::gate::Limit;

/// Below the help of every command.
pub const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 error, 2 usage, 3 threshold exceeded, 130 interrupted.";

/// Where results go, and how they look. The same for every command that prints some.
#[derive(Args, Clone, Debug)]
pub struct ResultsTo {
    /// text or json [default: text; json where --output names a file that ends in .json].
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,

    /// Write the results to FILE, and print the text as well; - for the standard output alone.
    #[arg(long, value_name = "FILE|-", default_value = "-", hide_default_value = true)]
    pub output: PathBuf,
}

/// Limits on figures or ratios. The same for every command that holds results against some.
#[derive(Args, Clone, Debug)]
pub struct Limits {
    /// Limits on figures or ratios; exit code 3 where one fails.
    #[arg(long, value_name = "FILE")]
    pub gate: Option<PathBuf>,

    /// One limit, such as 'throughput.64>=1e6' or 'os.*@container:slowdown<=1.5'; may be repeated.
    #[arg(long, value_name = "METRIC<=VALUE")]
    pub limit: Vec<Limit>,
}

/// How results look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs; docs/results-schema.md describes it.
    Json,
}

/// Results as [`ResultsTo`] says, a page of them, and a gate.
#[derive(Args, Clone, Debug)]
pub struct Reported {
    /// Where results go.
    #[command(flatten)]
    pub results_to: ResultsTo,

    /// Write a page with plots to FILE.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Limits on figures or ratios.
    #[command(flatten)]
    pub limits: Limits,
}
