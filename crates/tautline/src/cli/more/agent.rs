use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::EXIT_CODES;

/// Arguments of `agent`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct Agent {
    /// Serve runs of other machines that prove a key, one at a time, until this command is interrupted. Port 0 for
    /// any.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,

    /// The far end's key file [default: far.pem in the folder of `agent keys`].
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub key: Option<PathBuf>,

    /// A subcommand to carry out instead of serving.
    #[command(subcommand)]
    pub command: Option<AgentCommand>,
}

/// The subcommands of `agent`.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Make a pair of keys: near.pem for the machine that measures, far.pem for the machine that listens.
    Keys(AgentKeys),
}

/// Arguments of `agent keys`.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub struct AgentKeys {
    /// The folder for the keys [default: tautline in the user's configuration folder, ~/.config].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// For how many days the keys are valid.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub days: u32,
}
