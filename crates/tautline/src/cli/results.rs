//! Options that all commands with results have.

use std::path::PathBuf;

use clap::Args;
use report::gate::Limit;

/// The text below the help of every command.
pub const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 error, 2 usage, 3 threshold exceeded, 130 interrupted.";

/// The destination and the form of the results. Every command that prints results has these options.
#[derive(Args, Clone, Debug)]
pub struct ResultsTo {
    /// text or json [default: json if --output names a file that ends in .json, else text].
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub format: Option<Format>,

    /// Write the results to FILE and print the text too; - prints to the standard output only.
    #[arg(long, value_name = "FILE|-", default_value = "-", hide_default_value = true)]
    pub output: PathBuf,
}

/// Limits on figures or ratios. Every command that checks its results against limits has these options.
#[derive(Args, Clone, Debug)]
pub struct Limits {
    /// A file of limits on figures or ratios. Exit code 3 if one fails.
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

/// The options for results ([`ResultsTo`]), for a page of the results, and for a gate.
#[derive(Args, Clone, Debug)]
pub struct Reported {
    /// The destination and the form of the results.
    #[command(flatten)]
    pub results_to: ResultsTo,

    /// Write a page with plots to FILE.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Limits on figures or ratios.
    #[command(flatten)]
    pub limits: Limits,
}
